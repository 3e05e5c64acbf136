/**
 * Where the knee of a target lies, out of the calls of a ramp (story `find-knee`): how many calls a second it can have
 * admitted, and what ends it. Of a target nobody knows anything, so each way to an end is looked for: calls shed because too
 * many are in flight, a key's rate, answers that grow slow, no answers at all. A ramp that ends first found nothing, and the
 * result says so.
 */
import type { CallLine } from "../history/line.ts";
import { quantile } from "../history/statistics/statistics.ts";
import type { RateFound } from "../workload/callers/target-view.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { admittedRate, CALLS_MIN, isAdmitted, LATENCY } from "./admitted-rate.ts";

type Knee =
  /** Calls per second with a 95 % interval; `by`: the outcome that ended it, or `latency`. */
  | {
      readonly found: true;
      readonly capacityPerS: number;
      readonly low: number;
      readonly high: number;
      readonly by: string;
    }
  /** `atLeastPerS`: the highest step that had next to everything admitted; 0 when there was none. */
  | { readonly found: false; readonly reason: string; readonly atLeastPerS: number };

/** A step is past the knee when this part of its calls was not admitted: more than chance refuses below capacity. */
const PAST = 0.2;
/** Below this a step counts as carried. */
const CARRIED = 0.05;
/** Steps past the knee, one after the other, from which the ramp may end. */
const ENOUGH_STEPS = 2;
/** Answers this many times as slow as at the lowest rates have left the ground. */
const SLOW = 3;
/** Calls from which it is known how long one stays when there is nothing else to do. */
const CALM_CALLS = 16;
const Z_95 = 1.96;

const stayUs = (call: CallLine): number => call.done_us - call.intended_us;
const isOfLoad = (outcome: string): boolean => /^(429|503|5\d\d|edge|indeterminate)/.test(outcome);

const commonest = (calls: readonly CallLine[]): string => {
  const counts = new Map<string, number>();
  for (const { outcome } of calls) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return [...counts].reduce((most, one) => (one[1] > most[1] ? one : most), ["", 0])[0];
};

type Step = ReturnType<typeof steppedCalls>[number];
type Seen = { refused: number; isPast: boolean; isSlow: boolean };

const medianStayUs = (calls: readonly CallLine[]): number | null =>
  quantile(
    calls
      .filter(isAdmitted)
      .map(stayUs)
      .sort((a, b) => a - b),
    0.5,
  );

/** The median stay of the first admitted calls, when the target had least to do. */
const calmStayUs = (steps: readonly Step[]): number | null => {
  const first: CallLine[] = [];
  for (const { calls } of steps) {
    first.push(...calls.filter(isAdmitted));
    if (first.length >= CALM_CALLS) break;
  }
  return medianStayUs(first);
};

/** `offered`: calls of the step that are known to have left, also where their answers are not there yet. */
const look = ({ calls }: Step, calmUs: number | null, offered = calls.length): Seen => {
  const refused = offered === 0 ? 0 : calls.filter((call) => !isAdmitted(call)).length / offered;
  const stay = medianStayUs(calls);
  // A few milliseconds more are the machine's, not a queue's.
  const isSlow = stay !== null && calmUs !== null && stay > SLOW * calmUs + 5_000;
  return { refused, isSlow, isPast: calls.length >= CALLS_MIN && (refused >= PAST || isSlow) };
};

/** From where on every step that has calls enough is past the knee, and there are two of them; -1 where it is not so. */
const firstOfLastRun = (steps: readonly Step[], seen: readonly Seen[]): number => {
  let first = -1;
  let count = 0;
  for (let at = steps.length - 1; at >= 0; at--) {
    if ((steps[at] as Step).calls.length < CALLS_MIN) continue;
    if (!(seen[at] as Seen).isPast) break;
    first = at;
    count += 1;
  }
  return count >= ENOUGH_STEPS ? first : -1;
};

/** `startUs`: when the ramp began, by the clock of its lines; where absent, when its first call should have left. */
export const kneeOfRamp = (lines: readonly CallLine[], ramp: Profile, startUs?: number): Knee => {
  // Sessions are minted before the ramp.
  const calls = lines.filter(({ route }) => route !== "sdk.sessions");
  const steps = steppedCalls(calls, ramp, startUs);
  const calm = calmStayUs(steps);
  const seen = steps.map((step) => look(step, calm));
  const carried = steps.findLastIndex(
    (step, at) => step.calls.length > 0 && seen.slice(0, at + 1).every((one) => one.refused < CARRIED && !one.isSlow),
  );
  const atLeastPerS = steps[carried]?.ratePerS ?? 0;
  const none = (reason: string): Knee => ({ found: false, reason, atLeastPerS });
  if (calls.length < CALLS_MIN) return none(`the ramp had ${calls.length} calls`);
  if (!calls.some(isAdmitted)) return none(`no call was admitted at any rate: ${commonest(calls)}`);
  const refused = calls.filter((call) => !isAdmitted(call));
  const strange = refused.filter(({ outcome }) => !isOfLoad(outcome));
  if (strange.length > refused.length / 2) return none(`calls were refused whatever the rate: ${commonest(strange)}`);
  const at = firstOfLastRun(steps, seen);
  if (at < 0) {
    const top = steps.findLast((step) => step.calls.length > 0)?.ratePerS ?? 0;
    const some =
      refused.length === 0 ? "nothing was refused" : `only ${refused.length} of ${calls.length} were refused`;
    return none(`not reached: ${some} up to ${top.toFixed(1)} calls/s; a higher \`permits.load_max_rps\` may reach it`);
  }
  const past = steps.slice(at).flatMap((step) => step.calls);
  const firstRefused = past.find((call) => !isAdmitted(call));
  const pastRefused = past.filter((call) => !isAdmitted(call));
  const by = pastRefused.length >= (PAST / 2) * past.length ? commonest(pastRefused) : LATENCY;
  const fromUs = by === LATENCY ? (steps[at] as Step).fromUs : (firstRefused as CallLine).intended_us;
  const toUs = Math.max(...past.map(({ intended_us: us }) => us));
  const { perS, n, atMostPerS } = admittedRate(calls, fromUs, toUs, by);
  if (n < CALLS_MIN || !(perS > 0))
    return none(`only ${n} calls were admitted past the knee (${by}): too few to count`);
  // Counts of admitted calls scatter like those of a Poisson process at most.
  const half = (Z_95 * perS) / Math.sqrt(n);
  return {
    found: true,
    capacityPerS: perS,
    low: Math.max(0, perS - half),
    high: Math.max(perS + half, atMostPerS),
    by,
  };
};

/** What stories are to know of it (`capacity` of their view). */
export const rateFoundOf = (knee: Knee): RateFound | null => {
  if (knee.found) return { perS: knee.capacityPerS, by: knee.by };
  return knee.atLeastPerS > 0 ? { perS: knee.atLeastPerS, by: null } : null;
};

type RampStep = {
  readonly fromUs: number;
  readonly toUs: number;
  readonly ratePerS: number;
  /** In the order in which they should have left. */
  readonly calls: readonly CallLine[];
};

/** `startUs`: when the ramp began; where absent, when its first call should have left. */
const steppedCalls = (lines: readonly CallLine[], ramp: Profile, startUs?: number): RampStep[] => {
  const ordered = [...lines].sort((a, b) => a.intended_us - b.intended_us);
  let fromUs = startUs ?? ordered[0]?.intended_us ?? 0;
  let next = 0;
  return ramp.pieces.map(({ from, to, durationS }) => {
    const toUs = fromUs + durationS * 1e6;
    const calls: CallLine[] = [];
    for (; next < ordered.length && (ordered[next] as CallLine).intended_us < toUs; next++) {
      calls.push(ordered[next] as CallLine);
    }
    const step = { fromUs, toUs, ratePerS: (from + to) / 2, calls };
    fromUs = toUs;
    return step;
  });
};
