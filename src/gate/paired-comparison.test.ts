/** Each verdict on pairs made up with a known truth, so that the gate has failed, passed and doubted before it is asked. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uniform } from "../workload/random.ts";
import type { BlockValues, GateMeasurement } from "./block.ts";
import { gateClaims } from "./gate-claims.ts";
import { NO_VALUES } from "./no-values.fixture.ts";
import {
  type Comparison,
  comparePairs as compare,
  GATE_POLICY,
  type GatePolicy,
  type Pair,
  smallestSeen,
  verdictOf,
} from "./paired-comparison.ts";

type Truth = Partial<Record<GateMeasurement, number>>;

const BASE = { latency_ms_p50: 80, latency_ms_p99: 90, goodput: 400 };
const THREE: GatePolicy = {
  ...GATE_POLICY,
  measurements: ["latency_ms_p50", "latency_ms_p99", "goodput"],
  falseAlarm: 0.001,
};
const comparePairs = (pairs: readonly Pair[], policy: GatePolicy = THREE): Comparison[] => compare(pairs, policy);

/** Pairs of a head that is `truth` times the base, every value scattered by `scatter` (standard deviation of its ln). */
const pairsOf = (count: number, scatter: number, truth: Truth = {}, seed = 1): Pair[] => {
  let drawn = 0;
  const noise = (): number => {
    const [u, v] = [1 - uniform(seed, drawn, 1), uniform(seed, drawn, 2)];
    drawn += 1;
    return Math.exp(scatter * Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v));
  };
  const block = (factor: Truth): BlockValues => ({
    ...NO_VALUES,
    latency_ms_p50: BASE.latency_ms_p50 * (factor.latency_ms_p50 ?? 1) * noise(),
    latency_ms_p99: BASE.latency_ms_p99 * (factor.latency_ms_p99 ?? 1) * noise(),
    goodput: BASE.goodput * (factor.goodput ?? 1) * noise(),
  });
  return Array.from({ length: count }, () => ({ base: block({}), head: block(truth) }));
};

const verdicts = (comparisons: readonly Comparison[]): Record<string, string> =>
  Object.fromEntries(comparisons.map(({ measurement, verdict }) => [measurement, verdict]));

const ALL_WELL = { latency_ms_p50: "no-regression", latency_ms_p99: "no-regression", goodput: "no-regression" };

describe("a comparison of paired blocks", () => {
  test("condemns a head that is ten percent slower, by its median, and by how much", () => {
    const found = comparePairs(pairsOf(16, 0.02, { latency_ms_p50: 1.1 }));
    expect(verdicts(found)).toEqual({ ...ALL_WELL, latency_ms_p50: "regression" });
    expect(found[0]?.worseBy).toBeCloseTo(1.1, 1);
    expect(verdictOf(found)).toBe("regression");
  });

  test("condemns a head whose tail alone is slower, by its p99 alone", () => {
    const found = comparePairs(pairsOf(16, 0.05, { latency_ms_p99: 2 }));
    expect(found.filter(({ verdict }) => verdict === "regression").map(({ measurement }) => measurement)).toEqual([
      "latency_ms_p99",
    ]);
  });

  test("takes goodput that falls for worse, and goodput that rises for better", () => {
    expect(verdicts(comparePairs(pairsOf(16, 0.02, { goodput: 0.9 }))).goodput).toBe("regression");
    const risen = comparePairs(pairsOf(16, 0.02, { goodput: 1.2 }));
    expect(risen[2]).toMatchObject({ verdict: "no-regression", improved: true });
  });

  test("acquits a head that is the base, by proof that it is not worse", () => {
    const found = comparePairs(pairsOf(16, 0.03));
    expect(verdicts(found)).toEqual(ALL_WELL);
    expect(verdictOf(found)).toBe("no-regression");
    expect(Math.max(...found.map(({ pInside }) => pInside))).toBeLessThan(0.05);
  });

  test("does not call a shift inside the margin a regression, however sure it is of it", () => {
    const [median] = comparePairs(pairsOf(30, 0.002, { latency_ms_p50: 1.02 }));
    expect(median?.pWorse).toBeLessThan(0.0001);
    expect(median).toMatchObject({ verdict: "no-regression", improved: false });
  });

  test("allows what a stated margin allows, and no more", () => {
    const pairs = pairsOf(16, 0.02, { latency_ms_p50: 1.1 });
    const within = (margin: number) => comparePairs(pairs, { ...THREE, margins: { latency_ms_p50: margin } });
    expect(verdicts(within(1.2))).toEqual(ALL_WELL);
    expect(verdicts(within(1.07))).toEqual({ ...ALL_WELL, latency_ms_p50: "regression" });
  });

  test("says that it cannot tell when pairs scatter more than the margin, whatever the truth", () => {
    expect(verdictOf(comparePairs(pairsOf(16, 0.4)))).toBe("inconclusive");
    expect(comparePairs(pairsOf(16, 0.4))[0]?.reason).toMatch(/^too noisy to decide/);
  });

  test("says by which factor a head is worse, which is allowed, and what chance would do", () => {
    const [worse] = comparePairs(pairsOf(12, 0.01, { latency_ms_p50: 1.3 }));
    expect(worse?.reason).toMatch(/^worse by a factor of 1\.\d{3} \(1\.050 allowed\); by chance in .* % of such/);
  });

  test("says that it cannot tell with too few pairs, also when all of them shout", () => {
    const found = comparePairs(pairsOf(11, 0.001, { latency_ms_p50: 3 }));
    expect(found.map(({ verdict }) => verdict)).toEqual(["inconclusive", "inconclusive", "inconclusive"]);
    expect(found[0]?.reason).toBe("too few pairs: 11, and no fewer than 12 can decide");
    expect(verdictOf(comparePairs([]))).toBe("inconclusive");
  });

  test("leaves pairs without a value out, and a measurement without values open", () => {
    const pairs = pairsOf(16, 0.02).map(({ base, head }) => ({ base, head: { ...head, latency_ms_p99: null } }));
    expect(comparePairs(pairs)[1]).toMatchObject({ verdict: "inconclusive", pairs: 0, worseBy: null });
    expect(verdictOf(comparePairs(pairs))).toBe("inconclusive");
  });

  test("says what is not measured at all, and lets it decide nothing", () => {
    const found = compare(pairsOf(16, 0.02), { ...GATE_POLICY, measurements: ["latency_ms_p50", "event_gap_ms_p50"] });
    expect(found[1]).toMatchObject({ verdict: "not-measured", worseBy: null });
    expect(verdictOf(found)).toBe("no-regression");
    expect(gateClaims(found, "again")[1]).toMatchObject({ verdict: "skipped" });
    expect(verdictOf(compare(pairsOf(16, 0.02), { ...GATE_POLICY, measurements: ["event_gap_ms_p50"] }))).toBe(
      "inconclusive",
    );
  });

  test("leaves out what few blocks of either side have: load at the edge of the capacity meets a refusal now and then", () => {
    const pairs = pairsOf(12, 0.02).map(({ base, head }, at) => ({
      base: { ...base, refusal_ms_p50: at < 5 ? 2 : null },
      head: { ...head, refusal_ms_p50: at < 4 ? 2 : null },
    }));
    const found = compare(pairs, { ...GATE_POLICY, measurements: ["latency_ms_p50", "refusal_ms_p50"] });
    expect(found[1]).toMatchObject({ verdict: "not-measured" });
    expect(verdictOf(found)).toBe("no-regression");
  });

  test("leaves open what the base has and the head never", () => {
    const pairs = pairsOf(16, 0.02).map(({ base, head }) => ({ base: { ...base, ttfe_ms_p50: 10 }, head }));
    const [found] = compare(pairs, { ...GATE_POLICY, measurements: ["ttfe_ms_p50"] });
    expect(found).toMatchObject({ verdict: "inconclusive", pairs: 0 });
  });

  test("takes a share that rises from nothing for worse, by what is left of the calls", () => {
    const pairs = pairsOf(16, 0.02).map(({ base, head }) => ({
      base: { ...base, shed_share: 0 },
      head: { ...head, shed_share: 0.3 },
    }));
    const [found] = compare(pairs, { ...GATE_POLICY, measurements: ["shed_share"] });
    expect(found).toMatchObject({ verdict: "regression", base: 0, head: 0.3 });
    expect(found?.worseBy).toBeCloseTo(1 / 0.7, 9);
  });

  test("knows the smallest effect that it could have seen: one of that size is seen nine times in ten", () => {
    const policy: GatePolicy = { ...GATE_POLICY, measurements: ["latency_ms_p50"] };
    const one = (count: number, shift: number, seed: number): Comparison =>
      compare(pairsOf(count, 0.08, { latency_ms_p50: shift }, seed), policy)[0] as Comparison;
    for (const count of [12, 30]) {
      const sizes = Array.from({ length: 25 }, (_, seed) => smallestSeen(one(count, 1, seed)) as number);
      const smallest = sizes.sort((a, b) => a - b)[12] as number;
      const seen = Array.from({ length: 300 }, (_, seed) => one(count, smallest, seed + 100)).filter(
        ({ verdict }) => verdict === "regression",
      ).length;
      expect(seen / 300).toBeGreaterThan(0.82);
      expect(seen / 300).toBeLessThan(0.97);
    }
    expect(smallestSeen(one(4, 1, 1))).toBeNull();
  });

  test("condemns goodput that fell to nothing", () => {
    const found = comparePairs(pairsOf(16, 0.02, { goodput: 0 }));
    expect(found[2]).toMatchObject({ verdict: "regression" });
  });

  test("acquits what never differs at all", () => {
    const block = { ...NO_VALUES, latency_ms_p50: 80, latency_ms_p99: 90, goodput: 0 };
    expect(verdictOf(comparePairs(Array.from({ length: 16 }, () => ({ base: block, head: block }))))).toBe(
      "no-regression",
    );
  });

  test("is a regression one way round and an improvement the other", () => {
    const shift = fc.double({ min: 0.7, max: 1.4, noNaN: true });
    const scatter = fc.double({ min: 0, max: 0.1, noNaN: true });
    fc.assert(
      fc.property(shift, scatter, fc.nat(9_999), (latency_ms_p50, noise, seed) => {
        const pairs = pairsOf(16, noise, { latency_ms_p50 }, seed);
        const there = comparePairs(pairs);
        const back = comparePairs(pairs.map(({ base, head }) => ({ base: head, head: base })));
        for (const [at, one] of there.entries()) {
          const other = back[at] as Comparison;
          expect((one.worseBy as number) * (other.worseBy as number)).toBeCloseTo(1, 2);
          if (one.verdict === "regression") expect(other).toMatchObject({ verdict: "no-regression", improved: true });
          if (one.improved) expect(other.verdict).toBe("regression");
        }
      }),
      { seed: 1, numRuns: 200 },
    );
  });

  test("calls no more than one comparison in a thousand of a thing with itself a regression", () => {
    const runs = 2_000;
    const alarms = Array.from({ length: runs }, (_, seed) => comparePairs(pairsOf(16, 0.1, {}, seed))).filter(
      (found) => verdictOf(found) === "regression",
    ).length;
    expect(alarms / runs).toBeLessThanOrEqual(0.001);
  });

  test("shares its chances of a mistake among looks: three looks at growing pairs find no more than one would", () => {
    const policy = { ...THREE, looks: 3, falseAlarm: 0.01 };
    const runs = 300;
    const alarms = Array.from({ length: runs }, (_, seed) => {
      const pairs = pairsOf(30, 0.15, {}, seed);
      return [12, 20, 30].some((n) => verdictOf(comparePairs(pairs.slice(0, n), policy)) === "regression");
    }).filter(Boolean).length;
    expect(alarms / runs).toBeLessThanOrEqual(0.01);
    const found = comparePairs(pairsOf(9, 0.001, { latency_ms_p50: 3 }), policy);
    expect(found[0]?.reason).toBe("too few pairs: 9, and no fewer than 10 can decide");
  });

  test("passes no more than one comparison in twenty of a head that is worse by the margin", () => {
    const runs = 1_000;
    const passed = Array.from({ length: runs }, (_, seed) =>
      comparePairs(pairsOf(16, 0.03, { latency_ms_p50: 1.05 }, seed)),
    ).filter(([median]) => median?.verdict === "no-regression").length;
    // One in twenty, and what a thousand draws of it may be off by.
    expect(passed / runs).toBeLessThanOrEqual(0.07);
  });
});

describe("the gate's claims", () => {
  test("fail for a regression, pass for none, and stay open where it could not tell", () => {
    const claims = gateClaims(comparePairs(pairsOf(16, 0.03, { latency_ms_p50: 1.3 })), "again");
    expect(claims.map(({ id, verdict }) => [id, verdict])).toEqual([
      ["gate/latency_ms_p50", "fail"],
      ["gate/latency_ms_p99", "pass"],
      ["gate/goodput", "pass"],
    ]);
    expect(claims[0]?.got).toMatch(
      /^\d+ beside [\d.]+, 1\.\d{3} times as bad \(95 %: 1\.\d{3} to 1\.\d{3}\) in 16 pairs; 1\.\d{3} would have been seen$/,
    );
    const open = gateClaims(comparePairs([]), "again");
    expect(open.map(({ verdict, got }) => [verdict, got])).toContainEqual(["inconclusive", "nothing to compare"]);
  });
});
