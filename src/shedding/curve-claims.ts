/**
 * Judges a curve. A claim fails where the whole interval of its figure lies beyond the bound, passes where the whole interval
 * lies inside, and is open otherwise; it is open as well where something else may explain the figure: other callers, an
 * edge that answers, capacity that moved, a key's rate that ends before the deployment's capacity, a generator that was late.
 */
import { claimOf } from "../history/claim.ts";
import type { Claim, ClaimVerdict, Level, Measurement } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { doubtsAgainst, timeDoubts } from "../history/time-doubts.ts";
import type { Curve, CurveLevel, Estimate } from "./curve.ts";
import { carriedPerS } from "./knee.ts";
import {
  chanceSheds,
  fairnessOfCurve,
  hysteresisOf,
  levelsBelow,
  measurementsOf,
  pastKnee,
  refusalPriceOf,
  retentionAt,
  retentionByChance,
  shedOver,
  slotsLeaked,
  statedSystem,
  upAndDownPairs,
  wayOf,
} from "./measures.ts";

type Finding = { readonly verdict: ClaimVerdict; readonly reason: string; readonly got: string };

/** What may explain a figure beside the deployment's shedding. */
type Need = "knee" | "steady" | "settled" | "exclusive" | "time" | "direct";

type CurveClaim = {
  readonly measure: string;
  readonly level: Level;
  readonly expected: (curve: Curve, facts: StageFacts) => string;
  readonly needs: readonly Need[];
  readonly judge: (curve: Curve, facts: StageFacts) => Finding;
};

const RATE_LIMITED = "429 rate_limited";

const percent = (share: number): string => `${Number((share * 100).toFixed(Math.abs(share) < 0.1 ? 2 : 1))} %`;
const rate = (perS: number): string => `${perS.toFixed(1)}/s`;

const found = (verdict: ClaimVerdict, reason: string, got = reason): Finding => ({ verdict, reason, got });
const open = (reason: string): Finding => found("inconclusive", reason, "not enough to judge by");

/** Where `of` lies against a bound. `words` says what the figure is; `write` writes it. */
const against = (
  of: Estimate | null,
  { least, most }: { least?: number; most?: number },
  words: string,
  write: (value: number) => string = percent,
): Finding => {
  if (of === null) return open(`no level shows ${words}`);
  const got = `${words} ${write(of.value)}, between ${write(of.low)} and ${write(of.high)} (95 %)`;
  const bound = write(least ?? most ?? 0);
  if (least === undefined ? of.low > (most ?? 0) : of.high < least) {
    return found("fail", `${words} is certainly ${least === undefined ? "above" : "below"} ${bound}`, got);
  }
  if (least === undefined ? of.high <= (most ?? 0) : of.low >= least) return found("pass", got);
  return found("inconclusive", `${words} may lie on either side of ${bound}: ${got}`, got);
};

const shareIn = (
  levels: readonly CurveLevel[],
  of: (level: CurveLevel) => number,
): { share: number; n: number; count: number } => {
  const n = levels.reduce((sum, { offered }) => sum + offered, 0);
  const count = levels.reduce((sum, level) => sum + of(level), 0);
  return { share: n === 0 ? 0 : count / n, n, count };
};

const failedWith =
  (isMeant: (outcome: string) => boolean) =>
  ({ failed }: CurveLevel): number =>
    Object.entries(failed).reduce((sum, [outcome, n]) => sum + (isMeant(outcome) ? n : 0), 0);

const isEdge = (outcome: string): boolean => outcome.startsWith("edge ");
/** An answer of the platform that refuses without saying that it is overloaded. */
const isOtherRefusal = (outcome: string): boolean =>
  /^(?:[45]\d\d|200 error)/.test(outcome) && outcome !== RATE_LIMITED && !/^429 (?:map_load|tile_access)/.test(outcome);

/** 22 metastable failures of the literature keep a fraction of their goodput (Huang et al., OSDI 2022); half is far from any. */
const COLLAPSE = 0.5;
/** Issue figures: at twice the knee nobody sensible loses a fifth; M/M/4/4 keeps 83 % of its largest. */
const MUST_KEEP = 0.8;

const retention = (times: number, least: number, parts: Pick<CurveClaim, "measure" | "level">): CurveClaim => {
  const boundOf = (curve: Curve): number => Math.min(least, 0.98 * retentionByChance(curve, times));
  return {
    ...parts,
    expected: (curve) =>
      `at ${times} times the knee at least ${percent(boundOf(curve))} of the largest goodput of any level is kept`,
    needs: ["knee", "steady", "settled", "exclusive", "time", "direct"],
    judge: (curve) =>
      against(retentionAt(curve, times), { least: boundOf(curve) }, `goodput kept at ${times} times the knee`),
  };
};

/** The lowest level on both ways: there the deployment has least to do and had longest to recover. */
const calmPair = (curve: Curve): [up: CurveLevel, down: CurveLevel] | null => upAndDownPairs(curve)[0] ?? null;

/** Medians that differ by less than this are the machine's. */
const SLOWER = 1.5;
const SLOWER_MS = 50;
/** Goodput at the calmest level that is not back by this much of what is offered is lost. */
const LOST = 0.05;
/** Capacity that is lower afterwards by this much is lost, not scattered. */
const CAPACITY_LOST = 0.1;

const cameBack = (curve: Curve): Finding => {
  const pair = calmPair(curve);
  if (pair === null) return open("the calmest level was not played again after the overload");
  const [up, down] = pair;
  const goodOf = ({ good, offered }: CurveLevel): number => good / Math.max(1, offered);
  const half = 1.96 * Math.sqrt(Math.max(0.25 / Math.max(1, down.offered), 0.25 / Math.max(1, up.offered)) * 2);
  const lost = goodOf(up) - goodOf(down);
  const got = `${percent(goodOf(down))} good at ${rate(down.ratePerS)} after the overload, ${percent(goodOf(up))} before it`;
  if (lost - half > LOST) return found("fail", `goodput has not come back: ${got}`, got);
  const [was, is] = [up.stayMs.p50, down.stayMs.p50];
  if (was !== null && is !== null && is > SLOWER * was + SLOWER_MS) {
    const slow = `calls take ${is.toFixed(0)} ms (median) at ${rate(down.ratePerS)} after the overload, ${was.toFixed(0)} ms before it`;
    return found("fail", `latency has not come back: ${slow}`, slow);
  }
  const { before, after } = curve.knee;
  if (before !== null && after !== null && after.high < (1 - CAPACITY_LOST) * before.low) {
    const less = `the knee is ${rate(after.value)} after the overload, ${rate(before.value)} before it`;
    return found("fail", `capacity has not come back: ${less}`, less);
  }
  return lost + half > LOST + half && lost > LOST ? open(`too few calls to say: ${got}`) : found("pass", got);
};

/** Bursts below the knee are a limiter that measures its shortest round trip, unless the caps are stated to be fixed. */
const falseSheds = (curve: Curve, { limits, shedding }: StageFacts): Finding => {
  const levels = levelsBelow(curve, 0.5);
  const shed = shedOver(levels);
  if (shed === null) return open("no level lies below half of the knee");
  const chance = Math.max(...levels.map(({ ratePerS }) => chanceSheds(curve, ratePerS)));
  const most = (limits.false_sheds_allowed ?? FALSE_SHEDS) + 1.5 * chance;
  const finding = against(shed, { most }, "sheds below half of the knee");
  const { burstsBelowKnee: bursts } = curve;
  if (finding.verdict !== "fail" || bursts === null || shedding === "fixed") return finding;
  const period = bursts.periodS === null ? "" : `, every ${bursts.periodS.toFixed(1)} s`;
  const probing = `they come in ${bursts.count} bursts${period}, as of a limiter that measures its shortest round trip by admitting few calls; limits.false_sheds_allowed states what is allowed`;
  return found("inconclusive", `${finding.reason}, but ${probing}`, finding.got);
};
const FALSE_SHEDS = 0.001;

/** Other refusals may be this share of calls more than at the calmest level. */
const OTHER_REFUSALS = 0.01;

const subcodes = (curve: Curve): Finding => {
  const past = pastKnee(curve);
  const calm = shareIn(levelsBelow(curve, 0.7), failedWith(isOtherRefusal));
  const loaded = shareIn(past, failedWith(isOtherRefusal));
  if (loaded.n === 0) return open("no level lies past the knee");
  const shed = shareIn(past, ({ shed: by }) => Object.values(by).reduce((sum, n) => sum + n, 0));
  const names = [...new Set(past.flatMap(({ failed }) => Object.keys(failed).filter(isOtherRefusal)))];
  const half = 1.96 * Math.sqrt(Math.max(loaded.share, 1 / loaded.n) / loaded.n);
  const got = `${percent(loaded.share)} of the calls past the knee refused with ${names.slice(0, 4).join(", ") || "other outcomes"}, ${percent(shed.share)} with an overload subcode`;
  if (loaded.share - half > calm.share + OTHER_REFUSALS)
    return found("fail", "calls are refused under overload without an overload subcode", got);
  if (shed.count === 0) return open("nothing was shed past the knee");
  return loaded.share + half <= calm.share + OTHER_REFUSALS ? found("pass", got) : open(got);
};

/**
 * Each claim, with where its figure comes from. *Must* is what breaks a service under overload; *should* is what good ones reach.
 */
export const CURVE_CLAIMS: readonly CurveClaim[] = [
  // RFC 9110 leaves the code open; requirements 210, 220 and 221 name the two subcodes by which clients tell overload.
  {
    measure: "shed_subcodes",
    level: "must",
    expected: () => "calls past the knee are refused with b2b_overloaded or org_overloaded only",
    needs: [],
    judge: subcodes,
  },
  // Breakwater (OSDI 2020) shows no collapse at 1.4 times; a fifth is twice what four slots without a queue lose at 2 times.
  retention(2, MUST_KEEP, { measure: "goodput_retention", level: "must" }),
  // Half of the largest at 5 times is collapse: a refusal then costs 11 % of a call ((1 - kr) / (1 - r) = 0.5 at k = 5).
  retention(5, COLLAPSE, { measure: "collapse", level: "must" }),
  // Erlang's formula: 32 slots keep 97 % at 2 times; a refusal of 2 % of a call leaves 98 %.
  retention(2, 0.95, { measure: "goodput_retention_2", level: "should" }),
  // The same: a refusal of 2 % of a call leaves 92 % at 5 times.
  retention(5, 0.9, { measure: "goodput_retention_5", level: "should" }),
  // "Metastable Failures in the Wild" (OSDI 2022): the state outlasts the load that brought it.
  {
    measure: "metastability",
    level: "must",
    expected: () => "goodput, latency and capacity after the overload are those before it",
    needs: ["knee", "settled", "exclusive", "time", "direct"],
    judge: cameBack,
  },
  // Below half of the knee a slot is free but for chance; 0.1 % is the AWS and Google availability of a single zone.
  {
    measure: "false_sheds",
    level: "must",
    expected: (_, { limits }) =>
      `below half of the knee at most ${percent(limits.false_sheds_allowed ?? FALSE_SHEDS)} of the calls are shed, and what chance refuses`,
    needs: ["knee", "settled", "exclusive", "time", "direct"],
    judge: falseSheds,
  },
  {
    measure: "slots_leaked",
    level: "must",
    expected: () => "after the drain as many slots are taken as before the stage",
    needs: ["exclusive"],
    judge: (_, { gauges, gauges_before: before, drained }) => {
      const leaked = slotsLeaked(
        before?.map(({ in_flight: n }) => n),
        gauges?.map(({ in_flight: n }) => n),
      );
      if (leaked === null)
        return found("skipped", "skipped: gauges of the API replicas (control.api in the target file)");
      if (!drained) return open("the stage was not drained before the gauges were read");
      return found(leaked > 0 ? "fail" : "pass", `${leaked} slots were not given back`);
    },
  },
  // The table of section 3.6 of Kleinrock's "Queueing Systems" I is met by any server of fixed slots; a tenth is its host's.
  {
    measure: "closed_form",
    level: "should",
    expected: () => "every level carries at least 90 % of what Erlang's formula has for the stated slots",
    needs: ["knee", "steady", "settled", "exclusive", "time", "direct"],
    judge: (curve, { shedding }) => {
      const system = statedSystem(curve);
      if (system === null || shedding !== "fixed")
        return found("skipped", "skipped: fixed shedding with limits.slots and limits.service_ms");
      const shares = wayOf(curve, "up").map(({ ratePerS, goodputPerS: { value, low, high } }): Estimate => {
        const due = carriedPerS(system, ratePerS);
        return { value: value / due, low: low / due, high: high / due };
      });
      const worst = shares.reduce<Estimate | null>(
        (least, one) => (least === null || one.high < least.high ? one : least),
        null,
      );
      return against(worst, { least: 0.9 }, "of what the closed form carries, the worst level carries");
    },
  },
  // Two sides of a loop that differ by a twentieth: what batches of a level scatter by.
  {
    measure: "hysteresis",
    level: "should",
    expected: () => "goodput on the way down differs from that on the way up by at most 5 % of the area",
    needs: ["knee", "steady", "settled", "exclusive", "time", "direct"],
    judge: (curve) => against(hysteresisOf(curve), { most: 0.05 }, "hysteresis"),
  },
  // Cinnamon (Uber, 2023): a stable ratio of sheds, which AIMD and CoDel do not reach, is within a few times of chance.
  {
    measure: "oscillation",
    level: "should",
    expected: () => "the share shed at a level varies by at most 3 times what chance does",
    needs: ["knee", "settled", "exclusive", "time"],
    judge: (curve) => {
      const seen = pastKnee(curve).flatMap(({ shedDispersion, ...level }) =>
        shedDispersion === null ? [] : [{ by: shedDispersion, level }],
      );
      if (seen.length === 0) return open("no level past the knee is long enough to show it");
      const middle = seen.map(({ by }) => by).sort((a, b) => a - b)[Math.floor(seen.length / 2)] as number;
      const words = `${middle.toFixed(1)} times chance (median of ${seen.length} levels)`;
      return middle > 3 ? found("fail", `the share shed swings by ${words}`) : found("pass", words);
    },
  },
  // (1 - kr) / (1 - r): 2 % leaves 92 % at 5 times the knee.
  {
    measure: "refusal_price",
    level: "should",
    expected: () => "a refusal costs at most 2 % of what a served call costs",
    needs: ["knee", "steady", "settled", "exclusive", "time", "direct"],
    judge: (curve) => against(refusalPriceOf(curve), { most: 0.02 }, "a refusal's price in calls"),
  },
  // Work for a stream that is cut later is lost twice, for its caller and for the one refused meanwhile.
  {
    measure: "wasted_work",
    level: "should",
    expected: () => "at most 5 % of the events past the knee are sent on streams that are cut or come late",
    needs: ["knee", "settled", "exclusive", "time"],
    judge: (curve) => {
      const past = pastKnee(curve);
      const [wasted, events] = past.reduce(
        ([sum, all], level) => [sum + level.wastedEvents, all + level.events],
        [0, 0],
      );
      if (events === 0) return open("no events were seen past the knee");
      const got = `${percent(wasted / events)} of ${events} events`;
      return wasted / events > 0.05
        ? found("fail", `work is done for streams that are of no use: ${got}`, got)
        : found("pass", got);
    },
  },
  // Jain, Chiu & Hawe (1984): 0.98 is 14 % of scatter between equals.
  {
    measure: "jain_index",
    level: "should",
    expected: () => "organizations past the knee get their max-min fair share: Jain's index at least 0.98",
    needs: ["knee", "settled", "exclusive", "time", "direct"],
    judge: (curve) => against(fairnessOfCurve(curve), { least: 0.98 }, "Jain's index", (value) => value.toFixed(3)),
  },
];

/** Above this share of calls the key's rate, or an edge, shapes the curve. */
const SHAPING = 0.05;

const lateLevels = ({ levels, serviceMs }: Curve): CurveLevel[] =>
  levels.filter(({ lagMs }) => (lagMs ?? 0) > Math.max(5, 0.1 * serviceMs));

/** Why a need is not met, by the verdict that it would take away. */
const unmet = (need: Need, verdict: ClaimVerdict, curve: Curve, facts: StageFacts): string[] => {
  const { before, after } = curve.knee;
  const limited = Math.max(
    ...curve.levels.map(
      (level) =>
        shareIn(
          [level],
          failedWith((one) => one === RATE_LIMITED),
        ).share,
    ),
  );
  switch (need) {
    case "knee":
      if (before === null) return ["the load did not reach the knee"];
      return limited > SHAPING
        ? [
            `${RATE_LIMITED} for ${percent(limited)} of a level's calls: the rate of these keys ends before the capacity of the deployment`,
          ]
        : [];
    case "steady":
      if (before === null || after === null || (after.low <= before.high && after.high >= before.low)) return [];
      return [
        `capacity moved: the knee was ${rate(before.value)} before the overload and ${rate(after.value)} after it`,
      ];
    case "settled":
      return curve.warmUp.isCut ? ["calls last longer than a level leaves time to settle; play it for longer"] : [];
    case "exclusive":
      return verdict === "fail" && !facts.exclusive
        ? ["other callers may explain it (the target file does not state `exclusive`)"]
        : [];
    case "direct": {
      const edge = Math.max(...curve.levels.map((level) => shareIn([level], failedWith(isEdge)).share));
      return verdict === "fail" && edge > SHAPING
        ? [`something in front of the API answered ${percent(edge)} of a level's calls`]
        : [];
    }
    case "time": {
      const late = lateLevels(curve);
      const named = late.slice(0, 3).map(({ ratePerS, lagMs }) => `${rate(ratePerS)}: ${(lagMs ?? 0).toFixed(0)} ms`);
      const ofLevels = late.length === 0 ? [] : [`calls left late (p99) at ${named.join(", ")}`];
      const ofHost =
        facts.host === undefined
          ? []
          : doubtsAgainst(verdict, timeDoubts(facts.host, { tail: 0.01, limitMs: curve.objective.stayMs }));
      return [...ofLevels, ...ofHost];
    }
  }
};

const judgedClaim = (curve: Curve, facts: StageFacts, replay: string, claim: CurveClaim): Claim => {
  const { measure, level, expected, needs, judge } = claim;
  const finding = judge(curve, facts);
  const { verdict, reason, got } = finding;
  const doubts = verdict === "skipped" ? [] : needs.flatMap((need) => unmet(need, verdict, curve, facts));
  return claimOf({
    ...{ id: `curve/${measure}`, stage: curve.stage, level, replay, got, expected: expected(curve, facts) },
    ...(doubts.length === 0
      ? { verdict, reason }
      : { verdict: "inconclusive" as const, reason: `${doubts.join("; ")}. Without that: ${verdict}, ${reason}` }),
  });
};

export const judgeCurve = (
  curve: Curve,
  facts: StageFacts,
  replay: string,
): { claims: Claim[]; measurements: Measurement[] } => ({
  claims: CURVE_CLAIMS.map((claim) => judgedClaim(curve, facts, replay, claim)),
  measurements: measurementsOf(curve),
});
