import { describe, expect, test } from "vitest";
import { callFold } from "../history/call-fold.ts";
import type { CallLine, Line } from "../history/line.ts";
import { INVARIANTS } from "./catalogue.ts";
import { looksWrong } from "./evidence/legal-answers.ts";
import { inOrder } from "./invariant.ts";
import { judgeWith } from "./judge-with.fixture.ts";
import { SPECIMENS } from "./specimens/catalogue.fixture.ts";
import { charge, load, many, SERVER, stageOf } from "./specimens/specimen.fixture.ts";

/** The history as it would have been written, had its admitted calls been folded. */
const folded = (lines: readonly Line[], wrong: (call: CallLine) => boolean): Line[] => {
  const written: Line[] = lines.filter(({ type }) => type !== "call");
  const fold = callFold({ emit: (line) => written.push(line), looksWrong: wrong });
  const calls = lines.filter((line): line is CallLine => line.type === "call");
  for (const call of calls.toSorted((a, b) => a.done_us - b.done_us)) fold.see(call);
  fold.end();
  return inOrder(written);
};

const cases = INVARIANTS.flatMap((invariant) => {
  const { good = [], bad = [], thin = [] } = SPECIMENS.get(invariant.id) ?? {};
  return [...good, ...bad, ...thin].map((specimen) => ({ invariant, specimen }));
});

const ways = [
  { way: "what looks wrong is kept whole", wrong: (call: CallLine, ours: boolean) => looksWrong(call, ours) },
  { way: "nothing is noticed when it is folded", wrong: () => false },
] as const;

describe.each(ways)("a history of folded calls, where $way", ({ wrong }) => {
  test.each(
    cases.map(({ invariant, specimen }) => [`${invariant.id}: ${specimen.name}`, invariant, specimen] as const),
  )("%s", (_, invariant, specimen) => {
    const facts = stageOf(specimen.facts);
    const whole = judgeWith(invariant, facts, specimen.lines).verdict;
    const lines = folded(specimen.lines, (call) => wrong(call, facts.reference === true));
    const found = judgeWith(invariant, facts, lines);
    // Nothing that is wrong passes, and nothing that is right fails; that it cannot be judged is always an answer.
    if (found.verdict === "pass") expect(whole, found.reason).toBe("pass");
    if (found.verdict === "fail") expect(whole, found.reason).toBe("fail");
    const isFolded = lines.some(({ type }) => type === "fold");
    if (isFolded && invariant.folded !== true) {
      expect(["skipped", "inconclusive"]).toContain(found.verdict);
    }
    if (!isFolded) expect(found.verdict).toBe(whole);
  });
});

test("judges of what every call shows by itself, and of sums, have a verdict over folded calls as well", () => {
  const verdicts = new Map<string, Set<string>>();
  for (const { invariant, specimen } of cases) {
    const facts = stageOf(specimen.facts);
    const lines = folded(specimen.lines, (call) => looksWrong(call, true));
    if (!lines.some(({ type }) => type === "fold")) continue;
    const seen = verdicts.get(invariant.id) ?? new Set();
    verdicts.set(invariant.id, seen.add(judgeWith(invariant, facts, lines).verdict));
  }
  for (const id of ["counts-agree", "streams-end-once", "session-lifetime-is-bounded", "first-failing-check-decides"]) {
    expect(verdicts.get(id), id).toContain("pass");
  }
  for (const id of ["counts-agree", "session-lifetime-is-bounded"]) {
    expect(verdicts.get(id), id).toContain("fail");
  }
});

test("a refusal that was charged is found beside calls that were folded, and without one nothing is said of them", () => {
  const invariant = INVARIANTS.find(({ id }) => id === "refused-is-not-charged") as (typeof INVARIANTS)[number];
  const calls = [
    ...many(3, (at) => load(`ok${at}`, { atMs: at, facts: SERVER })),
    load("no", { atMs: 5, outcome: "429 rate_limited", facts: SERVER }),
  ];
  const lines = folded(calls, (call) => looksWrong(call, true));
  expect(lines.map(({ type }) => type).sort()).toEqual(["call", "fold"]);
  const ledger = many(3, (at) => charge(`c${at}`, `ok${at}`));
  expect(judgeWith(invariant, stageOf({ ledger }), lines)).toMatchObject({
    verdict: "skipped",
    reason: expect.stringContaining("3 admitted calls were folded"),
  });
  const charged = [...ledger, charge("c3", "no")];
  expect(judgeWith(invariant, stageOf({ ledger: charged }), lines)).toMatchObject({
    verdict: "fail",
    evidence: ["no"],
  });
});
