/**
 * Caps, slots, service time, rate and burst of a deployment, read from a few hundred calls that were sent to find them.
 *
 * Every call bounds what was in flight while it was decided: `least` streams certainly, `most` possibly. With one cap C
 * an admission shows C > least and a shed C <= most, so C lies in [least + 1, most]. With R replicas the calls in flight
 * are spread in a way that nobody outside knows: an admission shows only that one replica had room, C > least / R.
 * A key's bucket is bounded in the same way: an admission shows that a token was there, a refusal that none was.
 */
import { RATE_LIMITED } from "../contract/refusals.ts";
import { isStreamed } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { median, mostAtOnce } from "../history/statistics/statistics.ts";
import type { Estimate } from "./curve.ts";
import { batchMean } from "./knee.ts";
import { isAdmitted } from "./knee-of-ramp.ts";

export const GLOBAL_SHED = "429 b2b_overloaded";
export const ORGANIZATION_SHED = "429 org_overloaded";

const decidedUs = ({ first_us: first, done_us: done }: CallLine): number => first ?? done;

/** Whole numbers from `least` on; `most` is `null` where nothing bounds it. `least` above `most`: no one number explains all calls. */
export type WholeBounds = { readonly least: number; readonly most: number | null };

export const isExact = ({ least, most }: WholeBounds): boolean => least === most;
export const isContradiction = ({ least, most }: WholeBounds): boolean => most !== null && least > most;

/** The number of calls that must show a bound: one alone may be read out of order by a client that stalled. */
const SUPPORT = 2;

/**
 * `marginUs`: two calls that end within this time may appear in the wrong order. `releaseUs`: how long after its last byte a call
 * may still hold its place in the deployment; `marginUs` where absent.
 */
type Slack = { readonly marginUs: number; readonly releaseUs?: number };

/**
 * Counts the calls beside each call. `least`: streams in flight from before the sending until `untilUs`. `most`: all
 * that may have held a place; a refused call holds none once answered. `ahead`: those of `most` that were sent before
 * the call.
 */
const besideEach = (
  lines: readonly CallLine[],
  { marginUs, releaseUs = marginUs }: Slack,
  untilUs = decidedUs,
): { call: CallLine; least: number; most: number; ahead: number }[] => {
  const calls = lines.toSorted((a, b) => a.sent_us - b.sent_us);
  const longestUs =
    releaseUs + calls.reduce((most, { sent_us: sent, done_us: done }) => Math.max(most, done - sent), 0);
  let from = 0;
  return calls.map((call) => {
    while ((calls[from] as CallLine).sent_us < call.sent_us - longestUs) from += 1;
    const others: CallLine[] = [];
    for (let at = from; at < calls.length && (calls[at] as CallLine).sent_us <= call.done_us; at += 1) {
      if (calls[at] !== call) others.push(calls[at] as CallLine);
    }
    const near = others.filter((one) => one.done_us + (isAdmitted(one) ? releaseUs : 0) >= call.sent_us);
    const sentUntilUs = Math.min(decidedUs(call), call.sent_us + marginUs);
    const isHeld = (one: CallLine): boolean =>
      isAdmitted(one) && isStreamed(one) && decidedUs(one) < call.sent_us && one.done_us >= untilUs(call) + marginUs;
    return {
      ...{ call, least: others.filter(isHeld).length, most: near.length },
      ahead: near.filter(({ sent_us: sent }) => sent <= sentUntilUs).length,
    };
  });
};

/** Bounds of a cap: above the numbers in flight in `yes`, at most those in `no`; `SUPPORT` calls show each. */
const boundsOf = (yes: readonly number[], no: readonly number[]): WholeBounds => ({
  least: (yes.toSorted((a, b) => b - a)[SUPPORT - 1] ?? -1) + 1,
  most: no.toSorted((a, b) => a - b)[SUPPORT - 1] ?? null,
});

/**
 * Bounds of one replica's cap, whose refusal is `outcome`. `lines`: all calls in flight; for an organization's cap, the
 * calls of one organization.
 */
export const capBounds = (
  lines: readonly CallLine[],
  outcome: typeof GLOBAL_SHED | typeof ORGANIZATION_SHED,
  { replicas = 1, ...slack }: Slack & { readonly replicas?: number | undefined },
): WholeBounds => {
  const beside = besideEach(lines, slack);
  // Only streams count: a read holds a slot for a moment or not at all, so its admission does not show a cap.
  const admitted = beside.filter(({ call }) => isAdmitted(call) && isStreamed(call));
  const admissions = admitted.map(({ least }) => Math.floor(least / replicas));
  const sheds = beside.filter(({ call }) => call.outcome === outcome).map(({ most }) => most);
  return boundsOf(admissions, sheds);
};

const firstEventUs = ({ first_event_us: first, sent_us: sent }: CallLine): number | null =>
  first === undefined ? null : first - sent;

/** A delayed first event takes longer than this many times the slowest calm one plus this much. */
const WAIT_TIMES = 2;
const WAIT_LEAST_US = 20_000;

/**
 * Bounds of the slots, if more streams are admitted than are served at once: the first events of the waiting streams
 * come late, after another stream has ended. `calm`: streams that ran alone.
 */
export const slotBounds = (calm: readonly CallLine[], lines: readonly CallLine[], slack: Slack): WholeBounds => {
  const alone = calm.flatMap((call) => firstEventUs(call) ?? []);
  if (alone.length === 0) return { least: 0, most: null };
  const calmUs = Math.max(...alone);
  const served: number[] = [];
  const waited: number[] = [];
  for (const { call, least, ahead } of besideEach(lines, slack, (one) => one.first_event_us ?? decidedUs(one))) {
    const tookUs = firstEventUs(call);
    if (tookUs === null || !isAdmitted(call)) continue;
    const untilUs = call.sent_us + tookUs + slack.marginUs;
    const isBehind = ({ sent_us: sent, done_us: done }: CallLine): boolean =>
      sent < call.sent_us && done > call.sent_us && done <= untilUs;
    if (tookUs <= calmUs + WAIT_LEAST_US / 2) served.push(least);
    else if (tookUs > WAIT_TIMES * calmUs + WAIT_LEAST_US && lines.some(isBehind)) waited.push(ahead);
  }
  const { least } = boundsOf(served, []);
  // A stream that was served at once beside others shows that many slots. A late first event beside fewer has another cause.
  return boundsOf(
    served,
    waited.filter((ahead) => ahead >= least),
  );
};

/** The fewest streams for a mean with an interval. */
const STREAMS_MIN = 3;

const staysMs = (calls: readonly CallLine[]): number[] =>
  calls.filter(isAdmitted).map(({ sent_us: sent, done_us: done }) => (done - sent) / 1000);

/** Mean stay of streams that did not queue, less the median time of a read: a round trip that holds no slot. */
export const serviceTimeMs = (streams: readonly CallLine[], reads: readonly CallLine[]): Estimate | null => {
  const stays = staysMs(streams);
  if (stays.length < STREAMS_MIN) return null;
  const wayMs = median(staysMs(reads)) ?? 0;
  const { value, low, high } = batchMean(stays);
  return { value: Math.max(0, value - wayMs), low: Math.max(0, low - wayMs), high };
};

export type BucketFound =
  | { readonly found: true; readonly burst: WholeBounds & { most: number }; readonly ratePerS: Estimate }
  /**
   * `never-refused`: the calls were too few or too slow. `too-short`: hardly any was admitted after the burst. `too-fast`: tokens
   * come faster than calls can be told apart. `no-bucket`: no burst and rate explain what was admitted.
   */
  | { readonly found: false; readonly code: "never-refused" | "too-short" | "too-fast" | "no-bucket" };

/** A rate needs at least this many calls admitted after the first refusal. */
const PRESSED_MIN = 8;
/** The coarsest resolution of a limiter's clock. */
const CLOCK_US = 2_000;

/** More unrefused calls than this, for each call in flight, show that the burst exceeds the number in flight. */
const UNREFUSED_TIMES = 6;
const REFUSALS_MOST = 250;
const evenly = <T>(all: readonly T[]): readonly T[] => {
  const step = Math.ceil(all.length / REFUSALS_MOST);
  return all.filter((_, k) => k % step === 0);
};

/**
 * Burst B and rate R of a bucket that was full before the first of these calls. An admission at t, the n-th, shows
 * B + R t >= n. A refusal shows that since some moment s at which the bucket was full, n calls were admitted with
 * B + R (t - s) < n + 1: the first moment, or a later one where calls came more slowly than tokens.
 */
export const bucketFound = (lines: readonly CallLine[]): BucketFound => {
  const none = (code: (BucketFound & { found: false })["code"]): BucketFound => ({ found: false, code });
  const calls = lines
    .filter((call) => isAdmitted(call) || call.outcome === RATE_LIMITED)
    .toSorted((a, b) => a.sent_us - b.sent_us);
  const [first] = calls;
  const refused = calls.find(({ outcome }) => outcome === RATE_LIMITED);
  if (first === undefined || refused === undefined) return none("never-refused");
  const admitted = calls.filter(isAdmitted);
  if (admitted.filter(({ sent_us: sent }) => sent > refused.done_us).length < PRESSED_MIN) return none("too-short");
  const decided = admitted.map(decidedUs).toSorted((a, b) => a - b);
  const sent = admitted.map(({ sent_us: us }) => us);
  /** How many of these ordered moments are not after `us`. */
  const until = (moments: readonly number[], us: number): number => moments.findLastIndex((at) => at <= us) + 1;
  const owed = admitted.map((call) => ({
    s: (decidedUs(call) - first.sent_us + CLOCK_US) / 1e6,
    n: until(decided, call.sent_us) + 1,
  }));
  const denied = evenly(calls.filter(({ outcome }) => outcome === RATE_LIMITED)).map((call) => ({
    sentUs: call.sent_us - CLOCK_US,
    n: until(sent, decidedUs(call)) + 1,
  }));
  /**
   * The highest rate that explains a refusal: a bucket that was full before some admission is then empty. Below 0 if no
   * rate does.
   */
  const highest = (burst: number, { sentUs, n }: (typeof denied)[number]): number => {
    let rate = -1;
    for (let k = 0; n - k > burst; k += 1) {
      const s = (sentUs - decidedUs(admitted[k] as CallLine)) / 1e6;
      rate = Math.max(rate, s > 0 ? (n - k - burst) / s : Number.POSITIVE_INFINITY);
    }
    return rate;
  };
  const before = calls.filter(({ sent_us: us }) => us < refused.sent_us);
  const atOnce = Math.max(1, mostAtOnce(before.map(({ sent_us: us, done_us: done }) => [us, done] as const)));
  // Concurrent calls hardly bound a small burst, but one below the number in flight would have refused some.
  const smallest = before.length > UNREFUSED_TIMES * atOnce ? atOnce + 1 : 1;
  const bursts = admitted.map((_, at) => at + 1).filter((burst) => burst >= smallest);
  const fitting = bursts
    .map((burst) => ({
      burst,
      low: owed.reduce((most, { s, n }) => Math.max(most, (n - burst) / s), 0),
      high: denied.reduce((least, one) => Math.min(least, highest(burst, one)), Number.POSITIVE_INFINITY),
    }))
    .filter(({ low, high }) => low <= high);
  if (fitting.length === 0) return none("no-bucket");
  const low = Math.min(...fitting.map((one) => one.low));
  const high = Math.max(...fitting.map((one) => one.high));
  if (high === Number.POSITIVE_INFINITY) return none("too-fast");
  return {
    found: true,
    burst: {
      least: Math.min(...fitting.map(({ burst }) => burst)),
      most: Math.max(...fitting.map(({ burst }) => burst)),
    },
    ratePerS: { low, high, value: (low + high) / 2 },
  };
};

/** An interval narrower than this share holds at most one whole number that people would set. */
const NARROW = 0.01;
/** A limiter that adds its tokens in steps lets a narrow interval end below its rate, by less than this share. */
const STEPPED = 0.02;

/**
 * The rate to write into a target file: the whole number in a narrow interval or just above it, because people set
 * limits; else the upper end, which causes no false failure.
 */
export const writtenRate = ({ low, high }: Estimate): number => {
  const wholes = high - low <= NARROW * high ? [Math.round((low + high) / 2), Math.ceil(high)] : [];
  const fits = (whole: number): boolean => whole > 0 && whole >= low && whole <= (1 + STEPPED) * high;
  return wholes.find(fits) ?? Math.ceil(high * 100) / 100;
};
