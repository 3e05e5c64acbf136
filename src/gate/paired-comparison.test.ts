/** Each verdict on pairs made up with a known truth, so that the gate has failed, passed and doubted before it is asked. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { uniform } from "../workload/random.ts";
import type { GateMeasurement } from "./block.ts";
import { gateClaims } from "./gate-claims.ts";
import { type Comparison, comparePairs, GATE_POLICY, type Pair, verdictOf } from "./paired-comparison.ts";

type Truth = Partial<Record<GateMeasurement, number>>;

const BASE = { latency_ms_p50: 80, latency_ms_p99: 90, goodput: 400 };

/** Pairs of a head that is `truth` times the base, every value scattered by `scatter` (standard deviation of its ln). */
const pairsOf = (count: number, scatter: number, truth: Truth = {}, seed = 1): Pair[] => {
  let drawn = 0;
  const noise = (): number => {
    const [u, v] = [1 - uniform(seed, drawn, 1), uniform(seed, drawn, 2)];
    drawn += 1;
    return Math.exp(scatter * Math.sqrt(-2 * Math.log(u)) * Math.cos(2 * Math.PI * v));
  };
  const block = (factor: Truth) => ({
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

  test("says that it cannot tell when pairs scatter more than the margin, whatever the truth", () => {
    expect(verdictOf(comparePairs(pairsOf(16, 0.4)))).toBe("inconclusive");
    expect(comparePairs(pairsOf(16, 0.4))[0]?.reason).toMatch(/^too noisy to tell/);
  });

  test("says that it cannot tell with too few pairs, also when all of them shout", () => {
    const found = comparePairs(pairsOf(11, 0.001, { latency_ms_p50: 3 }));
    expect(found.map(({ verdict }) => verdict)).toEqual(["inconclusive", "inconclusive", "inconclusive"]);
    expect(found[0]?.reason).toBe("too few pairs: 11, and no fewer than 12 can tell");
    expect(verdictOf(comparePairs([]))).toBe("inconclusive");
  });

  test("leaves pairs without a value out, and a measurement without values open", () => {
    const pairs = pairsOf(16, 0.02).map(({ base, head }) => ({ base, head: { ...head, latency_ms_p99: null } }));
    expect(comparePairs(pairs)[1]).toMatchObject({ verdict: "inconclusive", pairs: 0, worseBy: null });
    expect(verdictOf(comparePairs(pairs))).toBe("inconclusive");
  });

  test("condemns goodput that fell to nothing", () => {
    const found = comparePairs(pairsOf(16, 0.02, { goodput: 0 }));
    expect(found[2]).toMatchObject({ verdict: "regression" });
  });

  test("acquits what never differs at all", () => {
    const block = { latency_ms_p50: 80, latency_ms_p99: 90, goodput: 0 };
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
          expect((one.worseBy as number) * (other.worseBy as number)).toBeCloseTo(1, 9);
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
    const policy = { ...GATE_POLICY, looks: 3, falseAlarm: 0.01 };
    const runs = 700;
    const alarms = Array.from({ length: runs }, (_, seed) => {
      const pairs = pairsOf(48, 0.15, {}, seed);
      return [16, 32, 48].some((n) => verdictOf(comparePairs(pairs.slice(0, n), policy)) === "regression");
    }).filter(Boolean).length;
    expect(alarms / runs).toBeLessThanOrEqual(0.01);
    const found = comparePairs(pairsOf(13, 0.001, { latency_ms_p50: 3 }), { ...GATE_POLICY, looks: 3 });
    expect(found[0]?.reason).toBe("too few pairs: 13, and no fewer than 14 can tell");
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
    const claims = gateClaims(comparePairs(pairsOf(16, 0.03, { latency_ms_p50: 1.3 })), "gate", "again");
    expect(claims.map(({ id, verdict }) => [id, verdict])).toEqual([
      ["gate/latency_ms_p50", "fail"],
      ["gate/latency_ms_p99", "pass"],
      ["gate/goodput", "pass"],
    ]);
    expect(claims[0]?.got).toMatch(/^1\.\d{3} times as bad, in 16 pairs$/);
    const open = gateClaims(comparePairs([]), "gate", "again");
    expect(open.map(({ verdict, got }) => [verdict, got])).toContainEqual(["inconclusive", "nothing to compare"]);
  });
});
