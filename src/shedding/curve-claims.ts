/**
 * Judges a curve. A claim fails if the whole interval of its figure lies beyond the bound and passes if it lies inside.
 * Otherwise it is inconclusive, also if something else may explain the figure: other callers, an edge that answers,
 * capacity that moved, a key's rate below the deployment's capacity, a late generator.
 */
import { RATE_LIMITED } from "../contract/refusals.ts";
import { BROKEN, HELD, type OpenCode, openBy, rulingOf } from "../history/reason-codes.ts";
import {
  type Claim,
  claimOf,
  type Gauges,
  type Level,
  type Measurement,
  type RampStep,
  type StageFacts,
} from "../history/run-document.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { SHARE_OF_PERMIT, TOP_OF_CURVE } from "../workload/story.ts";
import type { Curve, CurveLevel, Estimate, Pass } from "./curve.ts";
import { type Finding, found, machineDoubts, skipped } from "./finding.ts";
import * as measures from "./measures.ts";

type CurveClaim = {
  readonly measure: string;
  readonly level: Level;
  readonly expected: string | ((curve: Curve, facts: StageFacts) => string);
  /** Conditions of the claim. If one is not met, something besides the shedding may explain the figure. */
  readonly needs: readonly Need[];
  readonly judge: (curve: Curve, facts: StageFacts) => Finding;
};

const percent = (share: number): string => `${Number((share * 100).toFixed(Math.abs(share) < 0.1 ? 2 : 1))} %`;
const rate = (perS: number): string => `${perS.toFixed(1)}/s`;

const NOT_ENOUGH = "not enough to judge by";
const LONGER = "too few calls, so play it for longer (`--duration`)";
const timesAsLong = (times: number): string => `play it ${times} times as long (\`--duration\`)`;
/** A play that is this many times as long may still leave a figure so near to its bound open. */
const TIMES_LONGER_MOST = 12;

/** Says how many times as long a play has to be for the interval of a figure to leave out the bound. */
const longer = ({ value, low, high }: Estimate, bound: number): string => {
  const times = Math.max(2, Math.ceil((Math.max(high - value, value - low) / Math.abs(value - bound)) ** 2));
  return times > TIMES_LONGER_MOST ? LONGER : `too few calls, so ${timesAsLong(times)}`;
};

const open = (code: OpenCode, reason: string, got = NOT_ENOUGH): Finding => found(openBy(code), reason, got);

/** Compares `of` with a bound. `words` says what the figure is; `write` formats it. */
const against = (
  of: Estimate | null,
  { least, most = 0 }: { least?: number; most?: number },
  words: string,
  write: (value: number) => string = percent,
): Finding => {
  if (of === null) return open("not-reached", `no level shows ${words}`);
  const got = `${words} ${write(of.value)}, between ${write(of.low)} and ${write(of.high)} (95 %)`;
  const [isBeyond, isInside, side] =
    least === undefined ? [of.low > most, of.high <= most, "above"] : [of.high < least, of.low >= least, "below"];
  const bound = write(least ?? most);
  if (isBeyond) return found(BROKEN, `${words} is certainly ${side} ${bound}`, got);
  if (isInside) return found(HELD, got);
  return open("too-few-calls", `${longer(of, least ?? most)}: ${got}; the bound is ${bound}`, got);
};

const shareIn = (levels: readonly CurveLevel[], of: (level: CurveLevel) => number) => {
  const [n, count] = [measures.total(levels, ({ offered }) => offered), measures.total(levels, of)];
  return { share: n === 0 ? 0 : count / n, n, count };
};

const failedWith =
  (isMeant: (outcome: string) => boolean) =>
  ({ failed }: CurveLevel): number =>
    measures.total(Object.entries(failed), ([outcome, n]) => (isMeant(outcome) ? n : 0));

const isEdge = (outcome: string): boolean => outcome.startsWith("edge ");
/** Reports whether the platform refused without saying that it is overloaded. */
const isOtherRefusal = (outcome: string): boolean =>
  /^(?:[45]\d\d|200 error)/.test(outcome) && outcome !== RATE_LIMITED && !/^429 (?:map_load|tile_access)/.test(outcome);

const CAME_BACK: readonly Need[] = ["knee", "late", "host", "direct"];
const SETTLED: readonly Need[] = [...CAME_BACK, "settled", "bracketed"];
const OVERLOAD: readonly Need[] = [...SETTLED, "steady"];

const unsettled = ({ warmUp, serviceMs }: Curve): string | false => {
  const times = Math.max(2, Math.ceil(serviceMs / 1000 / warmUp.seconds));
  return warmUp.isCut && `calls last longer than a level leaves time to settle, so ${timesAsLong(times)}`;
};

const OTHERS = "other callers may explain it (the target file does not state `exclusive`)";

/** Says how to play levels that suit the measured knee, where a rate stated or found by a ramp did not. */
const aroundKnee = ({ knee: { overall } }: Curve): string =>
  overall === null
    ? "the load did not reach the knee"
    : `\`load shedding-curve --rate ${Number(overall.value.toPrecision(2))}\` plays levels around the knee found`;

/** The goodput to keep at a multiple of the knee: `least`, or 98 % of what an ideal loss system keeps if lower. */
const kept = (times: number, least: number): Pick<CurveClaim, "expected" | "needs" | "judge"> => {
  const boundOf = (curve: Curve): number => Math.min(least, 0.98 * measures.retentionByChance(curve, times));
  return {
    expected: (curve) =>
      `at ${times} times the knee at least ${percent(boundOf(curve))} of the largest goodput of any level is kept`,
    needs: OVERLOAD,
    judge: (curve) => {
      const bound = { least: boundOf(curve) };
      const words = `goodput kept at ${Number(times.toPrecision(2))} times the knee`;
      if (measures.retentionAt(curve, times) === null && curve.notPlayed.length > 0) {
        const perS = times * (curve.knee.overall?.value ?? 0);
        const permit = Math.ceil(perS / (SHARE_OF_PERMIT * TOP_OF_CURVE));
        return skipped(
          "not-permitted",
          `${times} times the knee (${rate(perS)}): permits.load_max_rps of ${permit} or more`,
        );
      }
      const finding = against(measures.retentionAt(curve, times), bound, words);
      const kneePerS = curve.knee.overall?.value ?? Number.POSITIVE_INFINITY;
      const further = measures.wayOf(curve, "up").map(({ ratePerS }) => ratePerS / kneePerS);
      const isKept = (at: number): boolean => (measures.retentionAt(curve, at)?.value ?? 0) >= bound.least;
      if (finding.verdict !== "fail" || !further.some((at) => at > times && isKept(at))) return finding;
      const rises = "more is kept at higher rates, as of replicas that get unequal parts of the load";
      return open("ambiguous", `${finding.reason}, but ${rises}, or of a limit that was low for a while`);
    },
  };
};

/** Less than half of the largest goodput at up to 5 times the knee, or a third at up to 10 times, is a collapse. */
const notCollapsed = (times: number) => kept(times, times <= 5 ? 0.5 : 1 / 3);
const TIMES_MOST = 10;
const [AT_5, AT_10] = [notCollapsed(5), notCollapsed(TIMES_MOST)];

/**
 * Judges the highest level by what the next higher of these multiples, which may not be played, has to keep. Nothing is
 * asked of levels above the highest multiple, which are played where the knee is lower than was thought.
 */
const keptAtTop = (curve: Curve, facts: StageFacts): Finding => {
  const topPerS = measures.wayOf(curve, "up").at(-1)?.ratePerS ?? 0;
  const times = topPerS / (curve.knee.overall?.value ?? Number.POSITIVE_INFINITY);
  return notCollapsed(Math.min(times, TIMES_MOST)).judge(curve, facts);
};

/** Levels up to this multiple of the knee are calm. */
const CALM = 0.77;
/** A median latency that grows by at most this factor and `SLOWER_MS` may be due to the machine. */
const SLOWER = 1.5;
const SLOWER_MS = 50;
/** Goodput at a calm level counts as lost if it falls by more than this share of the offered calls. */
const LOST = 0.05;
/** The largest goodput counts as lost if at most this share of it is left after the overload; a pass leaves out the second. */
const LEFT = 0.9;
const LEFT_SURELY = 0.7;

/** The share of offered calls that is good. */
const goodOf = ({ good, offered }: CurveLevel): number => good / Math.max(1, offered);

/** The share of offered calls at a level that is no longer good on the way down, with its 95 % margin. */
const lostAt = ([up, down]: measures.Pair): { by: number; half: number; got: string } => {
  const halves = [up, down].flatMap(({ offered, shedShare }) => [
    0.98 / Math.sqrt(Math.max(1, offered)),
    shedShare.high - shedShare.value,
  ]);
  const got = `${percent(goodOf(down))} good at ${rate(down.ratePerS)} after the overload, ${percent(goodOf(up))} before it`;
  return { by: goodOf(up) - goodOf(down), half: Math.hypot(...halves), got };
};

/** Reports whether the median `is` clearly exceeds `was`; the error of their ratio counts in the deployment's favour. */
const isSlowerThan = (is: Estimate, was: Estimate): boolean => {
  const error = Math.hypot((was.high - was.value) / was.value, (is.value - is.low) / is.value);
  return is.value * (1 - error) > SLOWER * was.value + SLOWER_MS;
};

/**
 * Says by how much calls became slower, if the medians differ by more than the machine explains and than their intervals
 * allow; else `null`, as where there are too few calls for an interval.
 */
const slowerAt = ([{ stayMedianMs: was }, { stayMedianMs: is, ratePerS }]: measures.Pair): string | null => {
  if (was === null || is === null || !isSlowerThan(is, was)) return null;
  return `calls take ${is.value.toFixed(0)} ms (median) at ${rate(ratePerS)} after the overload, ${was.value.toFixed(0)} ms before it`;
};

/**
 * If other callers are possible, a failure needs a share of good calm calls below this: others are unlikely to take so
 * much exactly then.
 */
const GOOD_BESIDE_OTHERS = 0.5;

/** The largest goodput of levels after the overload as a share of that before it; `null` where nothing was served before. */
const leftOf = (curve: Curve): { share: Estimate; got: string } | null => {
  const pairs = [...measures.pairsWith(curve, "down"), ...measures.pairsWith(curve, "after")];
  const [was, is] = [0, 1].map((at) => measures.largestGoodput(pairs.map((pair) => pair[at] as CurveLevel)));
  if (!was) return null;
  const got = `at most ${rate(is?.value ?? 0)} are served well after the overload, ${rate(was.value)} before it`;
  return { share: is ? measures.over(is, was) : { value: 0, low: 0, high: 0 }, got };
};

/**
 * The ramp before the curve was served at some rate. Capacity counts as lost if every level of the curve shows less than
 * this share of it. An honest limit that adapts may start too high and then sink to about half.
 */
const LEFT_SINCE_RAMP = 0.4;
/** Fixed caps keep this share. A limit that adapts may sink below it, or capacity is lost. */
const FIXED_SINCE_RAMP = 0.85;
/** A limit that sheds at numbers in flight that differ by at most one, or by this share, does not adapt. */
const FIXED_WITHIN = 0.1;

const isFixed = ({ levels }: Curve, { shedding }: StageFacts): boolean => {
  const each = levels.flatMap(({ shedsAt }) => shedsAt ?? []);
  const most = Math.max(...each);
  return shedding === "fixed" || most - Math.min(...each) <= Math.max(1, FIXED_WITHIN * most);
};

/**
 * Describes what a deployment lost for good in the ramp before the curve, which was its first overload; else `null`. Calls
 * count as slower only if both plays of the lowest level are slower than what the ramp carried last, at that rate or above.
 */
const lostSinceRamp = (curve: Curve, facts: StageFacts): string | null => {
  const { levels } = curve;
  const ramp = facts.curve?.ramp ?? [];
  const lowestPerS = Math.min(...levels.map(({ ratePerS }) => ratePerS));
  const lowest = levels.filter(({ ratePerS }) => ratePerS === lowestPerS);
  const carried = ramp.findLast(({ rate_per_s: perS }) => perS >= lowestPerS);
  const isSlower = ({ stayMedianMs: is }: CurveLevel): boolean =>
    is !== null && carried !== undefined && isSlowerThan(is, carried.stay_ms);
  if (lowest.every(isSlower)) {
    const ms = lowest[0]?.stayMs.p50 ?? 0;
    return `calls take ${ms.toFixed(0)} ms (median) at ${rate(lowestPerS)}, and took ${carried?.stay_ms.value.toFixed(0)} ms at a higher rate in the ramp before the curve`;
  }
  // A bucket of tokens serves the ramp from what it has saved up, and sheds beside any number of places.
  if (facts.shedding !== "fixed" && measures.isSpread(curve)) return null;
  return lessThanInRamp(curve, ramp, isFixed(curve, facts) ? FIXED_SINCE_RAMP : LEFT_SINCE_RAMP);
};

/** Says that every level shows less than `share` of the rate at which the ramp before the curve was served; else `null`. */
const lessThanInRamp = ({ levels, knee: { overall } }: Curve, ramp: readonly RampStep[], share: number) => {
  const servedPerS = ramp.at(-1)?.rate_per_s ?? 0;
  const most = Math.max(overall?.high ?? 0, ...levels.map(({ goodputPerS }) => goodputPerS.value));
  if (overall === null || most >= share * servedPerS) return null;
  return `the knee is ${rate(overall.value)}, and the ramp before the curve was served at ${rate(servedPerS)}`;
};

/** Says that capacity may be lost since the ramp, and how to find out; else `null`. */
const maybeLostSinceRamp = (curve: Curve, { exclusive, curve: about }: StageFacts): string | null => {
  const less = exclusive ? lessThanInRamp(curve, about?.ramp ?? [], FIXED_SINCE_RAMP) : null;
  const how = "start the deployment anew, and state `shedding: fixed` if its limits do not adapt";
  return less && `capacity may be lost since the first overload, or a limit that adapts has sunk (${how}): ${less}`;
};

/** A loss counts only if every calm level shows it: a limiter that probes its round trip disturbs a few levels, a bad state all. */
const cameBack = (curve: Curve, facts: StageFacts): Finding => {
  const { exclusive } = facts;
  const calmPerS = CALM * (curve.knee.overall?.value ?? 0);
  const sinceRamp = exclusive ? lostSinceRamp(curve, facts) : null;
  if (sinceRamp !== null)
    return found(BROKEN, `the state before the first overload has not come back: ${sinceRamp}`, sinceRamp);
  const notSettled = unsettled(curve);
  if (notSettled !== false) return open("too-few-calls", notSettled);
  const maybe = maybeLostSinceRamp(curve, facts);
  const left = exclusive ? leftOf(curve) : null;
  const lostGoodput = (got: string): Finding => {
    if (facts.shedding === "fixed" || !measures.hasRisen(curve))
      return found(BROKEN, `goodput has not come back: ${got}`, got);
    return open(
      "ambiguous",
      `a limit on calls in flight was low and rose again (state \`shedding: fixed\` if none adapts): ${got}`,
    );
  };
  const { value = 1, high = 1 } = left?.share ?? {};
  if (left !== null && value + measures.WIDER * (high - value) <= LEFT) return lostGoodput(left.got);
  const pairs = measures.pairsWith(curve, "down").filter(([up]) => up.ratePerS <= calmPerS);
  if (pairs.length === 0)
    return open("not-reached", maybe ?? `no calm level was played again after the overload; ${aroundKnee(curve)}`);
  const lost = pairs.map(lostAt);
  const { got } = lost[0] as (typeof lost)[number];
  const isPlain = exclusive || pairs.every(([, down]) => down.good < GOOD_BESIDE_OTHERS * down.offered);
  if (lost.every(({ by, half }) => by - half > LOST))
    return isPlain ? lostGoodput(got) : open("not-exclusive", `${OTHERS}: ${got}`);
  const [slower, ...more] = pairs.map(slowerAt);
  if (slower && more.every((one) => one !== null))
    return isPlain
      ? found(BROKEN, `latency has not come back: ${slower}`, slower)
      : open("not-exclusive", `${OTHERS}: ${slower}`);
  const [last] = lost as [(typeof lost)[number]];
  if (slower || last.by - last.half > LOST) {
    const late =
      "only the last levels show it, as of a limit that was low for a while, or of a state that was lost late";
    return open("ambiguous", `${late} (play it for longer, \`--duration\`): ${slower ?? got}`);
  }
  if (lost.every(({ by }) => by > LOST)) return open("too-few-calls", `${LONGER}: ${got}`);
  if (left !== null && left.share.value <= LEFT && left.share.low < LEFT_SURELY)
    return open("too-few-calls", `${LONGER}: ${left.got}`);
  return maybe === null ? found(HELD, got) : open("ambiguous", maybe);
};

/** Takes one replica's stated slots for the knee: if it sheds at half of them, the measured knee hides those sheds. */
const asStated = (curve: Curve): Curve => {
  const system = measures.statedSystem(curve);
  if (system?.replicas !== 1) return curve;
  const knee = { value: system.perS, low: system.perS, high: system.perS };
  return { ...curve, models: [], knee: { before: knee, after: knee, overall: knee } };
};

const falseSheds = (seen: Curve, facts: StageFacts): Finding => {
  const { limits, shedding } = facts;
  const curve = shedding === "fixed" ? asStated(seen) : seen;
  const half = measures.levelsBelow(curve, 0.5);
  const levels = half.length > 0 ? half : measures.levelsBelow(curve, 0.7);
  const shed = measures.shedOver(levels);
  const noLevel = `no level lies below half of the knee; ${maybeLostSinceRamp(seen, facts) ?? aroundKnee(curve)}`;
  if (shed === null) return open("not-reached", noLevel);
  const chance = Math.max(...levels.map(({ ratePerS }) => measures.chanceSheds(curve, ratePerS)));
  const allowed = allowedIn(limits);
  const most = allowed + CHANCE_TIMES * chance;
  const { value, low, high, n } = shed;
  const where = half.length > 0 ? "below half of the knee" : "at half to 0.7 times the knee";
  const got = `${percent(value)} of ${n} calls shed ${where}, between ${percent(low)} and ${percent(high)} (95 %)`;
  // If the knee is lower than expected, no level lies below half of it. No sheds above half mean none below.
  if (half.length === 0) return value <= allowed ? found(HELD, got) : open("not-reached", noLevel);
  const failAbove = (share: number): Finding =>
    found(BROKEN, `more than ${percent(share)} of the calls are shed below half of the knee`, got);
  const shedOn = (way: Pass): number => measures.shedOver(levels.filter(({ pass }) => pass === way))?.value ?? 0;
  const isOnBothWays = (share: number): boolean => shedOn("up") > share && shedOn("down") > share;
  // Sheds beside free places are not due to chance, so nothing is added to what is allowed.
  if (low > allowed && isOnBothWays(allowed) && measures.shedsWithRoom(curve)) return failAbove(allowed);
  // Where one replica's fixed slots are stated, `sheds-only-over-the-cap` judges each of these sheds as well.
  const isJudgedByCall = shedding === "fixed" && measures.statedSystem(curve)?.replicas === 1;
  const isPlain = shedding === "fixed" || measures.excludesLimit(levels);
  if (value <= most || (low <= most && (isJudgedByCall || value * n <= FEW_CALLS))) {
    const few = Math.max(...levels.map(({ ratePerS }) => measures.chanceSheds(curve, ratePerS, SLOTS_OF_REPLICA)));
    return (measures.excludesLimit(levels) ? value : low) <= allowed + CHANCE_TIMES * few
      ? found(HELD, got)
      : open(
          "not-stated",
          `state \`limits.replicas\`${isPlain ? "" : ", and `shedding: fixed` if no limit adapts"}, because only many replicas of a few slots each refuse so many by chance: ${got}`,
        );
  }
  if (low <= most) return open("too-few-calls", `${LONGER}: ${got}; the bound is ${percent(most)}`);
  if (!isOnBothWays(most))
    return open("ambiguous", `only on one way, as where capacity moved (play it again once it is steady): ${got}`);
  if (!isPlain)
    return open(
      "ambiguous",
      `only up to a number of calls in flight, as of a limit that adapts (state \`shedding: fixed\` if none does): ${got}`,
    );
  return failAbove(most);
};
/** The allowed share of false sheds: 0.1 % unless the target file states another. */
const allowedIn = ({ false_sheds_allowed: allowed = 0.001 }: StageFacts["limits"]): number => allowed;
/** Factor on what chance refuses: knee and slots are known to about 10 %, and the share rises steeply with either. */
const CHANCE_TIMES = 1.25;
/** Up to this many shed calls show nothing. */
const FEW_CALLS = 2.5;
/** Replicas with fewer slots than this excuse no sheds, unless the target file states the number of replicas. */
const SLOTS_OF_REPLICA = 8;

/** Refusals without an overload subcode may exceed those below the knee by this share of the calls. */
const OTHER_REFUSALS = 0.01;

const subcodes = (curve: Curve): Finding => {
  const past = measures.pastKnee(curve);
  const calm = shareIn(measures.levelsBelow(curve, 0.7), failedWith(isOtherRefusal));
  const loaded = shareIn(past, failedWith(isOtherRefusal));
  if (loaded.n === 0) return open("not-reached", "no level lies past the knee");
  const shed = shareIn(past, ({ shed: by }) => measures.total(Object.values(by), (n) => n));
  const names = [...new Set(past.flatMap(({ failed }) => Object.keys(failed).filter(isOtherRefusal)))];
  const half = 1.96 * Math.sqrt(Math.max(loaded.share, 1 / loaded.n) / loaded.n);
  const got = `${percent(loaded.share)} of the calls past the knee refused with ${names.slice(0, 4).join(", ") || "other outcomes"}, ${percent(shed.share)} with an overload subcode`;
  if (loaded.share - half > calm.share + OTHER_REFUSALS)
    return found(BROKEN, "calls are refused under overload without an overload subcode", got);
  if (shed.count === 0) {
    const edge = shareIn(past, failedWith(isEdge)).share;
    return edge > SHAPING
      ? skipped(
          "edge-answered",
          `sheds in the API's envelopes: ${percent(edge)} of the calls past the knee were answered outside them, by something in front of it or in its framework's words`,
        )
      : open("not-reached", "nothing was shed past the knee");
  }
  return loaded.share + half <= calm.share + OTHER_REFUSALS ? found(HELD, got) : open("too-few-calls", got);
};

/** Fewer refusals than this do not show how long one takes. */
const REFUSALS_MIN = 20;

/**
 * Compares the median time of refusals with that of the calls served at the same level: a queue with a deadline lets both
 * wait. Fails if refusals are slow at every level past the knee that has enough of them, and no served call waits as long.
 */
const refusalTime = (curve: Curve): Finding => {
  const past = measures.pastKnee(curve).flatMap(({ ratePerS, shed, refusalMs: { p50: ms }, stayMs, firstEventMs }) => {
    if (ms === null || sumOf(Object.values(shed)) < REFUSALS_MIN) return [];
    const servedMs = Math.max(curve.serviceMs, stayMs.p50 ?? 0);
    return { ratePerS, ms, servedMs, laterMs: ms - servedMs, firstMs: firstEventMs.p99 ?? 0 };
  });
  const [slowest] = past.toSorted((a, b) => b.laterMs - a.laterMs);
  if (slowest === undefined) return skipped("not-seen", `a level past the knee with ${REFUSALS_MIN} refusals`);
  const { ms, servedMs, ratePerS } = slowest;
  const got = `refusals take ${ms.toFixed(0)} ms (median) at ${rate(ratePerS)}, served calls ${servedMs.toFixed(0)} ms`;
  const isSlow = ({ laterMs }: { laterMs: number }): boolean => laterMs > SLOWER_MS;
  // A queue that serves the newest call first, or by priority, lets the others wait until their deadline.
  const calmMs = Math.max(0, ...measures.levelsBelow(curve, 0.7).map(({ firstEventMs: { p99 } }) => p99 ?? 0));
  const isQueued = ({ ms, firstMs }: { ms: number; firstMs: number }): boolean => firstMs - calmMs > ms / 2;
  if (past.every(isSlow)) {
    return past.some(isQueued)
      ? open(
          "ambiguous",
          `some served calls wait about as long, as in a queue that does not serve in order of arrival: ${got}`,
          got,
        )
      : found(BROKEN, "refusals take longer than serving a call", got);
  }
  return isSlow(slowest) ? open("ambiguous", `at some levels only: ${got}`, got) : found(HELD, got);
};

/** Slots that gauges count after the drain beyond those before the stage; `null` without gauges. */
const leakedIn = ({ gauges = [], gauges_before: before = [] }: StageFacts): number | null => {
  const held = (all: readonly Gauges[]): number => measures.total(all, ({ in_flight: n }) => n);
  return gauges.length === 0 ? null : Math.max(0, held(gauges) - held(before));
};

/** The share of a served call that a refusal may cost, and the share that a pass has to leave out. */
const COST = 0.05;
const COST_SURELY = 0.1;

/** The claims, each with the source of its figure. A failed *must* breaks a service; good ones reach every *should*. */
export const CURVE_CLAIMS: readonly CurveClaim[] = [
  // RFC 9110 leaves the code open; items 210 and 211 name the two subcodes by which clients tell overload.
  {
    ...{ measure: "shed_subcodes", level: "must", needs: ["knee"], judge: subcodes },
    expected: "calls past the knee are refused with b2b_overloaded or org_overloaded only",
  },
  // By Erlang's formula, four slots without a queue carry at twice the knee 87 % of what they carry at 10 times.
  { measure: "goodput_retention", level: "must", ...kept(2, 0.8) },
  // A refusal that costs r of a call leaves (1 - kr) / (1 - r) at k times the knee: r = 11 % half at 5, 7 % a third at
  // 10.
  {
    ...{ measure: "collapse", level: "must", needs: OVERLOAD },
    expected: "half of the largest goodput is kept at up to 5 times the knee, a third at up to 10 times",
    judge: (curve, facts) => {
      const top = keptAtTop(curve, facts);
      if (top.verdict === "fail") return top;
      const [at5, at10] = [AT_5.judge(curve, facts), AT_10.judge(curve, facts)];
      return at5.verdict !== "fail" && at10.code === "too-few-calls" ? at10 : at5;
    },
  },
  // At 5 times the knee a refusal that costs 5 % of a call leaves 79 %: (1 - kr) / (1 - r).
  {
    ...{ measure: "refusal_cost", level: "must", needs: OVERLOAD },
    expected:
      "a refusal costs at most 5 % of a served call, which leaves 79 % of the goodput at 5 times the knee (a pass is certain of 10 %)",
    judge: (curve) => {
      const price = measures.refusalPriceOf(curve);
      if (price === null) return skipped("not-seen", "three levels past the knee");
      const costOf = (of: Estimate | null): Finding => against(of, { most: COST }, "a refusal's cost in calls");
      const finding = costOf(price);
      // Levels that may lie below the knee show no cost.
      if (finding.verdict === "fail") return costOf(measures.refusalPriceOf(curve, true));
      const isSurelyLess = price.value <= COST && price.high <= COST_SURELY;
      return isSurelyLess ? found(HELD, finding.got ?? "") : finding;
    },
  },
  // Item 220 leaves open how soon a call is refused; the reference platform refuses at once. A queue before the refusal is
  // allowed here. A refusal that takes longer than a served call is not: it spares neither the caller nor the deployment.
  {
    // A busy host slows both down, so it explains no difference between calls of one level.
    ...{ measure: "refusal_time", level: "must", needs: ["knee", "settled", "late", "direct"] },
    expected: "a refusal past the knee takes no longer than a call that is served beside it",
    judge: refusalTime,
  },
  // At twice the knee 32 slots without a queue keep 97 % (Erlang); a refusal that costs 2 % of a call leaves 98 %.
  { measure: "goodput_retention_2", level: "should", ...kept(2, 0.95) },
  // At 5 times the knee a refusal that costs 2 % of a call leaves 92 %: (1 - kr) / (1 - r).
  { measure: "goodput_retention_5", level: "should", ...kept(5, 0.9) },
  // "Metastable Failures in the Wild" (OSDI 2022): the state outlasts the load that brought it.
  {
    ...{ measure: "metastability", level: "must", needs: CAME_BACK, judge: cameBack },
    expected:
      "goodput, latency and capacity after the overload are those before it (a pass is certain of 70 % of the goodput)",
  },
  // Below half of the knee a slot is nearly always free. The target file states what a limiter may refuse while it
  // probes.
  {
    ...{ measure: "false_sheds", level: "must", needs: SETTLED, judge: falseSheds },
    expected: (_, { limits }) =>
      `below half of the knee at most ${percent(allowedIn(limits))} of the calls are shed, and what chance refuses`,
  },
  {
    ...{ measure: "slots_leaked", level: "must", needs: ["exclusive"] },
    expected: "after the drain as many slots are taken as before the stage",
    judge: (_, facts) => {
      const leaked = leakedIn(facts);
      if (leaked === null) return skipped("not-stated", "gauges of the API replicas (control.api in the target file)");
      if (!facts.drained) return open("state-unknown", "the stage was not drained before the gauges were read");
      return found(leaked > 0 ? BROKEN : HELD, `${leaked} slots were not given back`);
    },
  },
  // Any server of fixed slots follows Kleinrock's formula ("Queueing Systems" I, section 3.6), less 10 % for its host.
  {
    ...{ measure: "closed_form", level: "should", needs: OVERLOAD },
    expected: "every level carries at least 90 % of what Erlang's formula has for the stated slots",
    judge: (curve, { shedding }) => {
      const system = measures.statedSystem(curve);
      if (system === null || shedding !== "fixed")
        return skipped("not-stated", "fixed shedding with limits.slots and limits.service_ms");
      const worst = measures.ofClosedForm(curve);
      const finding = against(worst, { least: 0.9 }, "of what the closed form carries, the worst level carries");
      if (finding.verdict !== "fail" || system.replicas === 1) return finding;
      return open(
        "ambiguous",
        `${finding.reason}, but replicas that get unequal parts of the load carry less than the formula has`,
      );
    },
  },
  // Batches of one level scatter by 5 %.
  {
    ...{ measure: "hysteresis", level: "should", needs: OVERLOAD },
    expected: "goodput on the way down differs from that on the way up by at most 5 % of the area",
    judge: (curve) => against(measures.hysteresisOf(curve), { most: 0.05 }, "hysteresis"),
  },
  // Cinnamon (Uber, 2023) keeps a stable ratio of sheds, unlike AIMD and CoDel: within a few times of chance.
  {
    ...{ measure: "oscillation", level: "should", needs: SETTLED },
    expected: "the share shed at a level varies by at most 3 times what chance does",
    judge: (curve) => {
      const { value, each } = measures.oscillationOf(curve) ?? { value: 0, each: [] };
      if (each.length < LEVELS_FOR_SWING)
        return open("too-few-calls", "too few levels past the knee are long enough to show it");
      const far = each.filter((by) => by > SWING).length / each.length;
      const got = `${value.toFixed(1)} times chance (median of ${each.length} levels)`;
      if (far < 1 / 3) return found(HELD, got);
      if (far < 2 / 3) return open("ambiguous", `at some levels only: ${got}`);
      return found(BROKEN, `at one rate the share of calls that is shed varies by ${got}`);
    },
  },
  // A price of 2 % leaves 92 % of the goodput at 5 times the knee: (1 - kr) / (1 - r).
  {
    ...{ measure: "refusal_price", level: "should", needs: OVERLOAD },
    expected: "a refusal costs at most 2 % of what a served call costs",
    judge: (curve) => against(measures.refusalPriceOf(curve), { most: 0.02 }, "a refusal's price in calls"),
  },
  // Work for a stream that is cut later is lost twice: for its caller, and for the caller refused in its place.
  {
    ...{ measure: "wasted_work", level: "should", needs: ["knee", "settled", "bracketed", "late", "host"] },
    expected: "at most 5 % of the events past the knee are sent on streams that are cut or come late",
    judge: (curve) => {
      const past = measures.pastKnee(curve);
      const wasted = measures.wastedOf(past)?.value;
      if (wasted === undefined) return open("not-seen", "no events were seen past the knee");
      const got = `${percent(wasted)} of ${measures.total(past, ({ events }) => events)} events`;
      return wasted > 0.05
        ? found(BROKEN, `work is done for streams that are of no use: ${got}`, got)
        : found(HELD, got);
    },
  },
  // Jain, Chiu & Hawe (1984): 0.98 is a coefficient of variation of 14 %.
  {
    ...{ measure: "jain_index", level: "should", needs: SETTLED },
    expected: "organizations past the knee get their max-min fair share: Jain's index at least 0.98",
    judge: (curve) =>
      against(measures.fairnessOfCurve(curve), { least: 0.98 }, "Jain's index", (value) => value.toFixed(3)),
  },
];

/** The shed share may vary by this many times what chance does; at least so many levels have to show it. */
const SWING = 3;
const LEVELS_FOR_SWING = 4;
/** If the key's rate refuses, or an edge answers, more of a level's calls than this share, they shape the curve. */
const SHAPING = 0.05;

/**
 * Late calls at the calmest level make the objective derived from that level too generous. If their lag exceeds this
 * share of the objective, no claim passes.
 */
const LATE_OBJECTIVE = 0.1;

/**
 * Puts a verdict in doubt because calls left late. A failure is doubted if it does not stand without the levels with
 * late calls. A pass is doubted only if the objective was derived from such a level: calls that were not offered cannot
 * make a deployment look better.
 */
const lateDoubt = ({ isFailed, curve, facts, judge }: Judged): string | false => {
  const { levels, objective, serviceMs } = curve;
  const isLate = ({ lagMs }: CurveLevel): boolean => (lagMs ?? 0) > Math.max(5, 0.1 * serviceMs);
  const late = levels.filter(isLate);
  if (late.length === 0) return false;
  const punctual = { ...curve, levels: levels.filter((level) => !isLate(level)) };
  const isObjectiveLate = objective.from === "calm" && (levels[0]?.lagMs ?? 0) > LATE_OBJECTIVE * objective.stayMs;
  if (isFailed ? judge(punctual, facts).verdict === "fail" : !isObjectiveLate) return false;
  const named = late.slice(0, 3).map(({ ratePerS, lagMs }) => `${rate(ratePerS)}: ${(lagMs ?? 0).toFixed(0)} ms`);
  return `calls left late (p99) at ${named.join(", ")}`;
};

/** The largest share of calls, over the levels, that failed with an outcome that `isMeant` accepts. */
const mostOfALevel = ({ levels }: Curve, isMeant: (outcome: string) => boolean): number =>
  Math.max(...levels.map((level) => shareIn([level], failedWith(isMeant)).share));

/** Returns a skipped finding if the key's rate or the permitted rate ends below the knee; else `null`. */
const beyondReach = (curve: Curve): Finding | null => {
  const limited = mostOfALevel(curve, (outcome) => outcome === RATE_LIMITED);
  if (limited > SHAPING) {
    const these = "the rate of these ends before the capacity of the deployment";
    return skipped(
      "role-missing",
      `more tenants, each with its key: ${these} (${RATE_LIMITED} for ${percent(limited)} of a level's calls)`,
    );
  }
  if (curve.knee.overall !== null || curve.notPlayed.length === 0) return null;
  return skipped("not-permitted", "a load that reaches the knee, which is beyond what permits.load_max_rps allows");
};

type Judged = {
  readonly curve: Curve;
  readonly facts: StageFacts;
  readonly judge: CurveClaim["judge"];
  readonly isFailed: boolean;
};

const moveInWords = ({ knee: { before, after } }: Curve, moved: measures.Pair | "knee"): string => {
  if (moved === "knee")
    return `the knee was ${rate(before?.value ?? 0)} before the overload and ${rate(after?.value ?? 0)} after it`;
  const [up, later] = moved;
  const when = later.pass === "down" ? "on the way down" : "after the overload";
  const [first, then] = [up, later].map(({ goodputPerS }) => rate(goodputPerS.value));
  return `of ${rate(up.ratePerS)}, ${first} was served well on the way up and ${then} ${when}`;
};

/** For each need, the reason why it is not met, else `false` or "". An unmet need makes a verdict inconclusive. */
const UNMET = {
  knee: ({ curve }) => curve.knee.overall === null && "the load did not reach the knee",
  steady: ({ curve, facts, judge, isFailed }) => {
    const moved = measures.moveOf(curve);
    // A level that carries more than an earlier one may explain a failure, and takes nothing from a pass.
    const isRise = moved !== null && moved !== "knee" && moved[1].goodputPerS.value > moved[0].goodputPerS.value;
    if (moved === null || (isRise && !isFailed)) return false;
    // A failure that both the way up and the way down show existed before the capacity moved, and exists after it.
    const isOnBothWays = isFailed && measures.waysAlone(curve).every((way) => judge(way, facts).verdict === "fail");
    return !isOnBothWays && `capacity moved (play it again once it is steady): ${moveInWords(curve, moved)}`;
  },
  settled: ({ curve }) => unsettled(curve),
  exclusive: ({ isFailed, facts }) => isFailed && !facts.exclusive && OTHERS,
  // A constant load of others only lowers the knee, so it explains no failure unless the knee moved.
  bracketed: ({ isFailed, facts, curve }) =>
    isFailed && !facts.exclusive && (curve.knee.after === null || measures.moveOf(curve) !== null) && OTHERS,
  direct: ({ isFailed, curve }) => {
    const edge = mostOfALevel(curve, isEdge);
    return (
      isFailed &&
      edge > SHAPING &&
      `${percent(edge)} of a level's calls were answered outside the API's envelopes, by something in front of it or in its framework's words`
    );
  },
  late: lateDoubt,
  /**
   * What on this machine may explain a failure. Lateness of calls, also for want of a connection, is judged level by
   * level, because a deployment that never refuses uses up all connections. Programs that use less than half of the
   * cores, such as a deployment on this machine, at most double every time (M/M/1); an objective of three times the calm
   * p99 allows for that.
   */
  host: ({ isFailed, facts: { host }, curve: { objective } }) => {
    const isBorne = objective.from === "calm" && (host?.other_cores ?? 0) <= (host?.cores ?? 0) / 2;
    const but = { generator: [], ...(isBorne ? { other_cores: null } : {}) };
    return isFailed && machineDoubts(host, objective.stayMs, but).join("; ");
  },
} satisfies Record<string, (of: Judged) => string | false>;
type Need = keyof typeof UNMET;

const CODE_OF_NEED: Readonly<Record<Need, OpenCode>> = {
  ...{ knee: "not-reached", steady: "ambiguous", settled: "too-few-calls", direct: "edge-answered" },
  ...{ exclusive: "not-exclusive", bracketed: "not-exclusive" },
  ...{ late: "generator-was-the-limit", host: "machine-disturbed" },
};

/** If no objective is stated, a failure by lateness alone stands only if the most patient caller would have given up too. */
const impatience = ({ curve, facts, judge, isFailed }: Judged): string | false => {
  const patient = isFailed ? curve.patient?.() : undefined;
  return (
    patient !== undefined &&
    judge(patient, facts).verdict !== "fail" &&
    `no objective is stated (\`slo\` in the target file), and it would not fail if answers within ${(patient.objective.stayMs / 1000).toFixed(1)} s counted as good`
  );
};

const judgedClaim = (curve: Curve, facts: StageFacts, replay: string, claim: CurveClaim): Claim => {
  const { measure, level, expected, needs, judge } = claim;
  const finding = (needs.includes("knee") ? beyondReach(curve) : null) ?? judge(curve, facts);
  const { verdict, reason, got } = finding;
  const ruling = rulingOf(finding);
  const of: Judged = { curve, facts, judge, isFailed: verdict === "fail" };
  const unmet = needs.map((need) => ({ code: CODE_OF_NEED[need], why: UNMET[need](of) }));
  const all = [...unmet, { code: "not-stated" as const, why: impatience(of) }];
  const doubts = verdict === "skipped" ? [] : all.filter(({ why }) => why !== false && why !== "");
  const doubted = `${doubts.map(({ why }) => why).join("; ")}. Without that: ${verdict}, ${reason}`;
  const due = typeof expected === "string" ? expected : expected(curve, facts);
  return claimOf({
    ...{ id: `curve/${measure}`, stage: curve.stage, level, replay, got, expected: due },
    ...(doubts[0] === undefined ? { ...ruling, reason } : { ...openBy(doubts[0].code), reason: doubted }),
  });
};

const leakedMeasurement = (facts: StageFacts): Measurement[] => {
  const value = facts.drained ? leakedIn(facts) : null;
  const about = { name: "slots_leaked", stage: facts.stage, unit: "1", low: null, high: null };
  return value === null ? [] : [{ ...about, value, n: facts.gauges?.length ?? 0 }];
};

export const judgeCurve = (
  curve: Curve,
  facts: StageFacts,
  replay: string,
): { claims: Claim[]; measurements: Measurement[] } => ({
  claims: CURVE_CLAIMS.map((claim) => judgedClaim(curve, facts, replay, claim)),
  measurements: [...measures.measurementsOf(curve), ...leakedMeasurement(facts)],
});
