/** The whole design of the gate in virtual time: how often it is wrong, and how often it sees what it has to see. */
import { describe, expect, test } from "vitest";
import { loadFor, looksFrom, PAIRS_DEFAULT, profileOfBlock, type Side } from "../../gate/block-plan.ts";
import { answersClaim, sinkingOf } from "../../gate/gate-claims.ts";
import { verdictOf } from "../../gate/paired-comparison.ts";
import type { CallLine } from "../../history/line.ts";
import { openVirtualDeployment, type VirtualDeployment } from "../../simulation/virtual-deployment.fixture.ts";
import { arrivalTimesUs } from "../../workload/load-profiles.ts";
import { exponential, saltOf } from "../../workload/random.ts";
import { type GateMeasured, measurePairs, type PlayedBlock } from "./run-gate.ts";

const SLOTS = 24;
const SERVICE_MS = 300;
const LOAD = loadFor((SLOTS * 1000) / SERVICE_MS);
const ARRIVALS = arrivalTimesUs(profileOfBlock(LOAD), "uniform", 1);
const BETWEEN_US = 20e6;
const NOBODY = new Set<string>();

type Ends = NonNullable<CallLine["ended"]>;
type Head = Partial<VirtualDeployment> & {
  problems?: (pair: number) => string[];
  /** The generator played the block, and the machine alone caused the problems. */
  isPlayed?: true;
  /** In what streams end, in place of what the virtual deployment says. */
  ends?: Readonly<Record<Side, Ends>>;
  /** Refusals of the head have another subcode. */
  refusesOtherwise?: true;
};

/** Each block meets a machine that is busier or less busy than the one before: its overhead is drawn anew. */
const compare = async (seed: number, head: Head, isOver = (): boolean => false): Promise<GateMeasured> => {
  const open = (name: string, more: Partial<VirtualDeployment>) => {
    let overheadMs = 2;
    const noise = {
      get overheadMs() {
        return overheadMs;
      },
      hiccupMs: 20,
      hiccupShare: 0.01,
    };
    const play = openVirtualDeployment({ name, slots: SLOTS, serviceMs: () => SERVICE_MS, ...more, noise });
    return (block: number, atUs: number) => {
      overheadMs = 1 + 3 * exponential(seed, block, saltOf(name));
      return play(
        ARRIVALS.map((us) => us + atUs),
        seed * 1_000 + block,
      );
    };
  };
  const { problems = () => [], isPlayed, ends, refusesOtherwise, ...more } = head;
  const sides: Record<Side, ReturnType<typeof open>> = { base: open("base", {}), head: open("head", more) };
  let atUs = 0;
  return measurePairs({
    seed,
    load: LOAD,
    looks: looksFrom(PAIRS_DEFAULT),
    sloMs: 2 * SERVICE_MS,
    noisy: { base: NOBODY, head: NOBODY },
    isOver,
    play: async (side, pair): Promise<PlayedBlock> => {
      atUs += BETWEEN_US;
      return {
        lines: sides[side](pair, atUs).map((line) => {
          if (line.outcome === "200") return ends === undefined ? line : { ...line, ended: ends[side] };
          return side === "head" && refusesOtherwise ? { ...line, outcome: "429 rate_limited" } : line;
        }),
        startUs: atUs,
        claims: [],
        isPlayed: isPlayed ?? (side === "base" || problems(pair).length === 0),
        problems: side === "head" ? problems(pair) : [],
      };
    },
  });
};

const share = async (runs: number, head: Head, wanted: string): Promise<number> => {
  let hits = 0;
  for (let seed = 0; seed < runs; seed += 1) {
    if (verdictOf((await compare(seed, head)).comparisons) === wanted) hits += 1;
  }
  return hits / runs;
};

describe("the design of the gate", () => {
  test("passes a head that is the base in nearly all runs, and never calls it worse", async () => {
    expect(await share(60, {}, "regression")).toBe(0);
    expect(await share(60, {}, "no-regression")).toBeGreaterThanOrEqual(0.95);
  });

  test("fails a head that is ten percent slower in all runs", async () => {
    expect(await share(40, { serviceMs: () => 1.1 * SERVICE_MS }, "regression")).toBe(1);
  });

  test("passes streams whose last event has a name of its own, on both sides, and fails a head that lost it", async () => {
    const own = await compare(1, { ends: { base: "eof", head: "eof" } });
    expect(own.pairs.map(({ head }) => head.error_share)).toEqual(own.pairs.map(() => 0));
    expect(verdictOf(own.comparisons)).toBe("no-regression");
    const { comparisons } = await compare(1, { ends: { base: "done", head: "eof" } });
    const worse = comparisons.filter(({ verdict }) => verdict === "regression").map(({ measurement }) => measurement);
    expect(worse).toEqual(["error_share"]);
  });

  test("fails a head that sheds below its capacity", async () => {
    const { comparisons } = await compare(1, { slots: SLOTS / 2 });
    const worse = comparisons.filter(({ verdict }) => verdict === "regression").map(({ measurement }) => measurement);
    expect(worse).toEqual(["shed_share", "goodput"]);
  });

  test("sees slots that leak slowly, by goodput that sinks from pair to pair", async () => {
    const { pairs, policy } = await compare(1, { leaksEvery: 400 });
    expect(sinkingOf(pairs, 1.05, policy.falseAlarm / policy.looks).verdict).toBe("sinks");
    const steady = await compare(1, { slots: SLOTS - 3 });
    expect(sinkingOf(steady.pairs, 1.05, policy.falseAlarm / policy.looks).verdict).toBe("holds");
  });

  test("measures on only where the pairs leave something open, up to thirty", async () => {
    const lengths = async (head: Head): Promise<number[]> => {
      const found: number[] = [];
      for (let seed = 0; seed < 8; seed += 1) found.push((await compare(seed, head)).pairs.length);
      return found;
    };
    expect(Math.min(...(await lengths({})))).toBe(PAIRS_DEFAULT);
    // Close to the edge of what is allowed, nobody can say on which side it lies.
    const closeToTheEdge = { serviceMs: () => 1.045 * SERVICE_MS };
    expect(Math.max(...(await lengths(closeToTheEdge)))).toBe(30);
    expect(Math.max(...(await lengths({ ...closeToTheEdge, refusesOtherwise: true })))).toBe(PAIRS_DEFAULT);
  });

  test("leaves out pairs that the generator could not play", async () => {
    const { pairs, dropped } = await compare(1, { problems: (pair) => (pair === 3 ? ["too slow"] : []) });
    expect(dropped).toEqual(["pair 4, head: too slow"]);
    expect(pairs.length % 10).toBe(pairs.length === 11 ? 1 : 9);
  });

  test("judges the form of answers on a busy machine too, and not where the generator could not play", async () => {
    const verdictFor = async (head: Head): Promise<string> =>
      answersClaim((await compare(1, { problems: () => ["busy"], ...head })).forms, "again").verdict;
    expect(await verdictFor({ isPlayed: true, refusesOtherwise: true })).toBe("fail");
    expect(await verdictFor({ isPlayed: true })).toBe("pass");
    expect(await verdictFor({ refusesOtherwise: true })).toBe("inconclusive");
  });

  test("ends at a look after which too few pairs can still be compared", async () => {
    const played = async (problems: NonNullable<Head["problems"]>): Promise<number[]> => {
      const { pairs, dropped } = await compare(1, { serviceMs: () => 1.045 * SERVICE_MS, problems });
      return [pairs.length, dropped.length];
    };
    expect(await played(() => ["too slow"])).toEqual([0, PAIRS_DEFAULT]);
    expect(await played((pair) => (pair < 11 ? ["too slow"] : []))).toEqual([1, 11]);
    // A machine that is busy at first leaves enough pairs.
    expect(await played((pair) => (pair < 8 ? ["too slow"] : []))).toEqual([22, 8]);
  });

  test("ends at once when it is stopped", async () => {
    const { pairs, isWhole, comparisons } = await compare(1, {}, () => true);
    expect([pairs.length, isWhole, verdictOf(comparisons)]).toEqual([0, false, "inconclusive"]);
  });
});
