import { describe, expect, test } from "vitest";
import { kneeRamp } from "../workload/stories/reads.ts";
import { readRamp } from "./knee-of-ramp.ts";
import {
  adaptive,
  always,
  playRamp,
  queueing,
  rateLimited,
  type Server,
  START_US,
} from "./simulated-servers.fixture.ts";

const SEEDS = Array.from({ length: 20 }, (_, k) => k + 1);

type Case = { name: string; truth: number; by: string; server: (seed: number) => Server; maxPerS: number };

const CASES: Case[] = [
  {
    name: "M/M/24/24, no queue",
    truth: 80,
    by: "429 b2b_overloaded",
    server: (seed) => queueing({ slots: 24, inFlight: 24, serviceMs: 300, seed }),
    maxPerS: 400,
  },
  {
    name: "M/M/16/48, a queue",
    truth: 80,
    by: "429 b2b_overloaded",
    server: (seed) => queueing({ slots: 16, inFlight: 48, serviceMs: 200, seed }),
    maxPerS: 500,
  },
  {
    name: "M/D/8/8 of one organization",
    truth: 40,
    by: "429 org_overloaded",
    server: (seed) =>
      queueing({ slots: 8, inFlight: 8, serviceMs: 200, seed, service: "constant", sheds: "429 org_overloaded" }),
    maxPerS: 200,
  },
  {
    name: "streams that outlast a step by far",
    truth: 3.2,
    by: "429 b2b_overloaded",
    server: (seed) => queueing({ slots: 64, inFlight: 64, serviceMs: 20_000, seed, service: "constant" }),
    maxPerS: 200,
  },
  {
    name: "adaptive shedding",
    truth: 80,
    by: "429 b2b_overloaded",
    server: (seed) => adaptive({ slots: 16, serviceMs: 200, toleratedMs: 100, seed }),
    maxPerS: 400,
  },
  {
    name: "a key's rate with a burst",
    truth: 50,
    by: "429 rate_limited",
    server: () => rateLimited(50, 100, 5),
    maxPerS: 400,
  },
  { name: "a slow key", truth: 5, by: "429 rate_limited", server: () => rateLimited(5, 10, 5), maxPerS: 50 },
  {
    name: "never sheds",
    truth: 50,
    by: "latency",
    server: (seed) =>
      queueing({ slots: 10, inFlight: Number.POSITIVE_INFINITY, serviceMs: 200, seed, service: "constant" }),
    maxPerS: 300,
  },
];

describe("the knee of a ramp against servers whose capacity is known", () => {
  test.each(CASES)(
    "$name: near the truth, which the interval holds in nearly every run",
    ({ truth, by, server, maxPerS }) => {
      let held = 0;
      for (const seed of SEEDS) {
        const ramp = kneeRamp(maxPerS);
        const { knee } = readRamp(playRamp(server(seed), ramp, seed), ramp, START_US);
        if (!knee.found) throw new Error(`seed ${seed}: ${knee.reason}`);
        expect(knee.by).toBe(by);
        expect(knee.capacityPerS / truth, `seed ${seed}`).toBeGreaterThan(0.75);
        expect(knee.capacityPerS / truth, `seed ${seed}`).toBeLessThan(1.3);
        if (knee.low <= truth && truth <= knee.high) held += 1;
      }
      expect(held).toBeGreaterThanOrEqual(16);
    },
  );

  test("the start may be unknown: the first call stands for it", () => {
    const ramp = kneeRamp(400);
    const { knee } = readRamp(playRamp(rateLimited(50, 100, 5), ramp, 3), ramp);
    expect(knee).toMatchObject({ found: true, by: "429 rate_limited" });
  });
});

test("a server that collapses past its knee has the knee of the steps before", () => {
  for (const seed of SEEDS) {
    const server = queueing(
      { slots: 16, inFlight: 16, serviceMs: 200, seed },
      { refused: ({ atUs }, pool) => pool.burn(atUs, 50_000) },
    );
    const ramp = kneeRamp(500);
    const { knee } = readRamp(playRamp(server, ramp, seed), ramp);
    expect(knee.found ? knee.capacityPerS / 80 : 0, `seed ${seed}`).toBeGreaterThan(0.5);
  }
});

test("a queue that fills in a step does not raise the knee", () => {
  for (const seed of SEEDS.slice(0, 5)) {
    const server = queueing({ slots: 16, inFlight: 64, serviceMs: 200, seed, service: "constant" });
    const ramp = kneeRamp(500);
    const { knee } = readRamp(playRamp(server, ramp, seed), ramp);
    expect(knee.found ? knee.capacityPerS / 80 : 9, `seed ${seed}`).toBeLessThan(1.15);
  }
});

describe("no knee", () => {
  test("a ramp that ends below capacity found none, and says how far it went", () => {
    const ramp = kneeRamp(60);
    const { knee } = readRamp(playRamp(queueing({ slots: 64, inFlight: 64, serviceMs: 200 }), ramp, 1), ramp, START_US);
    expect(knee).toMatchObject({
      found: false,
      atLeastPerS: 60,
      reason: expect.stringMatching(/60\.0 calls\/s, so it was not reached/),
    });
  });

  test("chance refusals below capacity are no knee", () => {
    // Erlang B: at three quarters of its capacity this one refuses about 2 of 100.
    const ramp = kneeRamp(60);
    for (const seed of SEEDS) {
      const server = queueing({ slots: 24, inFlight: 24, serviceMs: 300, seed });
      expect(readRamp(playRamp(server, ramp, seed), ramp, START_US).knee.found).toBe(false);
    }
  });

  test("calls that are refused at every rate are no matter of load", () => {
    const ramp = kneeRamp(50);
    const { knee } = readRamp(playRamp(always("401"), ramp, 1), ramp, START_US);
    expect(knee).toMatchObject({ found: false, atLeastPerS: 0, reason: expect.stringContaining("401") });
    let n = 0;
    const half: Server = (atUs) => ({ doneUs: atUs + 800, outcome: n++ % 2 === 0 ? "200" : "403 insufficient_scope" });
    expect(readRamp(playRamp(half, ramp, 1), ramp, START_US).knee).toMatchObject({
      found: false,
      reason: expect.stringContaining("insufficient_scope"),
    });
  });

  test("nothing was sent", () => {
    expect(readRamp([], kneeRamp(50)).knee).toMatchObject({ found: false, atLeastPerS: 0 });
  });
});

describe("the steps that a ramp was served at", () => {
  const ramp = kneeRamp(400);
  const stepsOf = (serviceMs: number) =>
    readRamp(playRamp(queueing({ slots: 24, inFlight: 24, serviceMs, seed: 1 }), ramp, 1), ramp).served;

  test("end before the first that was not, and have the median time of their calls", () => {
    const steps = stepsOf(300);
    expect(steps.at(-1)?.rate_per_s).toBeGreaterThan(30);
    expect(steps.at(-1)?.rate_per_s).toBeLessThan(100);
    // The median of an exponential time is ln 2 of its mean.
    expect((steps.at(-1)?.stay_ms.value ?? 0) / (300 * Math.LN2)).toBeCloseTo(1, 0);
  });

  test("go on after a few calls that were slow by chance", () => {
    const lines = playRamp(queueing({ slots: 24, inFlight: 24, serviceMs: 300, seed: 1 }), ramp, 1);
    const slow = lines.map((line, at) => (at < 6 ? { ...line, done_us: line.done_us + 1_500_000 } : line));
    expect(readRamp(slow, ramp).served.at(-1)).toEqual(readRamp(lines, ramp).served.at(-1));
  });

  test("where calls outlast a step, have the rate that their calls in flight show", () => {
    for (const serviceMs of [3_000, 6_000]) {
      const steps = stepsOf(serviceMs);
      expect(steps.length).toBeGreaterThan(0);
      for (const { rate_per_s: perS } of steps) expect(perS).toBeLessThan((1.1 * 24_000) / serviceMs);
    }
  });
});
