/**
 * The curve of shedding: the outcomes of calls at each level of a load that rises past the knee and comes down again.
 * Measures and claims are functions of the curve alone, so any deployment, ours or not, is judged the same way.
 */
import type { Interval } from "../history/statistics/statistics.ts";
import type { Profile } from "../workload/load-profiles.ts";

/** A figure with its 95 % interval, in one unit. */
export type Estimate = Interval & { readonly value: number };

/** `up` to the highest level, `down` from it, and `after`: past the knee once more, after a calm phase. */
export type Pass = "up" | "down" | "after";

/** A planned level; moments in microseconds from the beginning of the schedule. */
export type PlannedLevel = {
  readonly pass: Pass;
  readonly ratePerS: number;
  readonly fromUs: number;
  readonly toUs: number;
};

/** Times of calls in milliseconds; `null` where there are too few. */
export type Quantiles = { readonly p50: number | null; readonly p99: number | null };

/** Calls that found the deployment about as full. */
export type Beside = {
  readonly calls: number;
  readonly shed: number;
  /** Of those shed: a call sent at about the same time was admitted, although more calls were in flight. */
  readonly withRoom: number;
  /** Admitted calls in flight when these calls were sent, on average. */
  readonly inFlight: number;
};

/**
 * The outcomes of first attempts that were due in a level, without its warm-up. offered = good + late + shed + failed +
 * aborted.
 */
export type CurveLevel = {
  readonly pass: Pass;
  /** Calls per second of the schedule. */
  readonly ratePerS: number;
  readonly judgedS: number;
  readonly offered: number;
  /** Completed whole and inside the objective. */
  readonly good: number;
  /** Completed whole, later than the objective. */
  readonly late: number;
  /** Refused with an overload subcode, by outcome. */
  readonly shed: Readonly<Record<string, number>>;
  /** Any other end, by outcome; a stream that was cut counts as `cut`. */
  readonly failed: Readonly<Record<string, number>>;
  /** Streams that the caller closed on purpose. */
  readonly aborted: number;
  /** Attempts that are not first ones. */
  readonly retries: number;
  /** Good calls that ended in the level, per second; the interval is by batch means. */
  readonly goodputPerS: Estimate;
  /** Share of first attempts that were shed; the interval is by batch means. */
  readonly shedShare: Estimate;
  /**
   * The deviation that the shed share keeps in 68 % of the windows, divided by that of chance; `null` where hardly any
   * or nearly all calls are shed.
   */
  readonly shedDispersion: number | null;
  /** Measured from the intended moment: to the end of whole answers, to their first event, to the end of refusals. */
  readonly stayMs: Quantiles;
  readonly firstEventMs: Quantiles;
  readonly refusalMs: Quantiles;
  /** The median of `stayMs` with its interval; `null` where there are too few. */
  readonly stayMedianMs: Estimate | null;
  /**
   * Calls that found at least half of the usual places free (`free`), and calls that found three quarters or more of
   * them taken, and not all (`taken`); `null` if no level past the knee shows how many places there are.
   */
  readonly room: { readonly free: Beside; readonly taken: Beside } | null;
  /**
   * How many calls were in flight when one was shed, though no call beside it was admitted beside more (the median), and
   * when one was admitted (nine tenths, at most so many); `null` where there are too few.
   */
  readonly shedsAt: number | null;
  readonly admitsAt: number | null;
  /** p99 of how late calls were sent, because of the generator or for want of a free connection. */
  readonly lagMs: number | null;
  /** Events of all streams (`events`), and of streams that were cut or came late. */
  readonly events: number;
  readonly wastedEvents: number;
};

/** The time limits of a good call, in milliseconds from its intended moment. */
export type CallObjective = {
  readonly firstEventMs: number;
  readonly stayMs: number;
  /** Stated in the target file, or read from the calmest level. */
  readonly from: "stated" | "calm";
};

/**
 * Equal replicas among which calls are spread at random: all of them serve `slots` at once, hold `places` and complete `perS`
 * calls a second when every slot is busy.
 */
export type LossSystem = {
  readonly perS: number;
  readonly slots: number;
  readonly places: number;
  readonly replicas: number;
};

/** First attempts of one organization at the levels past the knee. */
type OrganizationShare = { readonly org: string; readonly offered: number; readonly good: number };

export type Curve = {
  readonly stage: string;
  /** Seconds at the beginning of each level that are not judged; `isCut`: calls last longer than a level leaves room for. */
  readonly warmUp: { readonly seconds: number; readonly isCut: boolean };
  /** In the order in which they were played. */
  readonly levels: readonly CurveLevel[];
  readonly objective: CallObjective;
  /** How long a call takes at the calmest level, from sending to its end, in milliseconds on average. */
  readonly serviceMs: number;
  /**
   * What can be admitted, in calls per second: before the overload, after it, and by all levels if these two agree (else
   * as before it); `null` where no level shows it.
   */
  readonly knee: Readonly<Record<"before" | "after" | "overall", Estimate | null>>;
  /** Loss systems that explain the levels, the fewest replicas first; each gives the share of calls that chance alone refuses at a level. */
  readonly models: readonly LossSystem[];
  /** Sorted by name; `null` if there are too many to count. */
  readonly organizations: readonly OrganizationShare[] | null;
  /** The outcome that limits the rate at the knee (`429 b2b_overloaded`, `latency`, …); `null` if nothing does. */
  readonly kneeBy: string | null;
  /** The stated slots of one replica and the number of replicas, for Erlang's formula; `null` unless caps are fixed. */
  readonly closedForm: { readonly slots: number; readonly replicas: number } | null;
  /** Levels that were wanted and not played, as multiples of the knee. */
  readonly notPlayed: readonly number[];
  /** Returns the same calls by the objective of the most patient caller; `null` if an objective is stated. */
  readonly patient: (() => Curve) | null;
};

/**
 * The levels of a profile that rises, falls and rises once more. The first level of the highest rate ends the way up;
 * after the way down, every level from the next rise on is `after`.
 */
export const levelsOf = ({ pieces }: Pick<Profile, "pieces">): PlannedLevel[] => {
  const rates = pieces.map(({ from, to }) => (from + to) / 2);
  const top = rates.indexOf(Math.max(...rates));
  let fromUs = 0;
  let pass: Pass = "up";
  return pieces.map(({ durationS }, at) => {
    const ratePerS = rates[at] as number;
    if (at > top) pass = pass === "after" || ratePerS > (rates[at - 1] as number) ? "after" : "down";
    const toUs = fromUs + durationS * 1e6;
    const level = { pass, ratePerS, fromUs, toUs };
    fromUs = toUs;
    return level;
  });
};
