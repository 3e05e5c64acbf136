import { expect, test } from "vitest";
import type { CallLine, FaultLine, Line } from "../history/line.ts";
import { CALM, LATE } from "../history/machines.fixture.ts";
import type { StageHost } from "../history/run-document.ts";
import { createPooledRefusals } from "./refusal-times.ts";

const fault = (phase: FaultLine["phase"], atMs: number): Line => ({
  type: "fault",
  stage: "s",
  experiment: "limiter-refused",
  link: "limiter",
  fault: "refused",
  stream: "both",
  phase,
  at_us: atMs * 1000,
  ...(phase === "injected" ? { took_effect: true } : {}),
});
const call = (atMs: number, tookMs: number, outcome = "429 limiter_unavailable"): Line =>
  ({
    type: "call",
    outcome,
    sent_us: atMs * 1000,
    first_us: null,
    done_us: (atMs + tookMs) * 1000,
    clock_error_us: 0,
  }) as CallLine;
/** Refusals of an experiment, one in `slowEvery` of them slow. */
const experiment = (count: number, slowEvery = Number.POSITIVE_INFINITY): Line[] => [
  fault("injected", 0),
  ...Array.from({ length: count }, (_, at) => call(1 + at, at % slowEvery === slowEvery - 1 ? 400 : 255)),
  call(1, 9_000, "200"),
  fault("healing", 60_000),
  call(61_000, 5_000),
];
const five = (count: number, slowEvery?: number): Line[][] =>
  Array.from({ length: 5 }, () => experiment(count, slowEvery));
const verdict = (stages: Line[][], limits = { limiter_budget_ms: 250 }): string[] => {
  const pooled = createPooledRefusals();
  for (const lines of stages) pooled.see(lines);
  return pooled.claims(limits, "again").map(({ id, verdict: said, level }) => `${level} ${id} ${said}`);
};

test("several experiments together are enough, and only what was refused while it was broken counts", () => {
  expect(verdict(five(50))).toEqual(["should refusals-in-budget/limiter inconclusive"]);
  expect(verdict(five(120))).toEqual(["should refusals-in-budget/limiter pass"]);
});

test("one in twenty that is slow is too many", () => {
  expect(verdict(five(120, 20))).toEqual(["should refusals-in-budget/limiter fail"]);
});

test("nothing is said of what was broken seldom, or whose budget nobody states", () => {
  expect(verdict([[call(1, 10)]])).toEqual([]);
  expect(verdict([experiment(400)])).toEqual([]);
  expect(verdict(five(120), {} as never)).toEqual([]);
});

test("what a disturbed machine refused late is left out, and what is left has to be enough", () => {
  const pooledOf = (hosts: (StageHost | undefined)[], slowEvery?: number) => {
    const pooled = createPooledRefusals();
    for (const host of hosts) pooled.see(experiment(120, host === LATE ? slowEvery : undefined), host);
    return pooled.claims({ limiter_budget_ms: 250 }, "again").map(({ verdict: said, reason }) => [said, reason]);
  };
  expect(pooledOf([CALM, CALM, CALM, CALM, LATE], 2)).toEqual([
    ["pass", "480 refusals came in time; 1 of 5 experiments are left out, because the machine disturbed them"],
  ]);
  expect(pooledOf([CALM, LATE, LATE, LATE, LATE], 2)).toEqual([
    [
      "inconclusive",
      "120 refusals; 368 are needed; 4 of 5 experiments are left out, because the machine disturbed them",
    ],
  ]);
});
