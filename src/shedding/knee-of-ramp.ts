/**
 * Finds the knee of a target in the calls of a ramp (story `find-knee`): the rate that is admitted, and what limits it:
 * sheds because too many calls are in flight, a key's rate, slow answers, or no answers at all. If the ramp ends before
 * the knee, nothing is found, and the result says so.
 */
import { RATE_LIMITED } from "../contract/refusals.ts";
import { type CallLine, classOf, dueWithin, type Span, stayMs } from "../history/line.ts";
import type { RampStep } from "../history/run-document.ts";
import { mean, median, mostAtOnce, sumOf, Z_95 } from "../history/statistics/statistics.ts";
import type { RateFound } from "../workload/callers/target-view.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { medianOf } from "./knee.ts";

export const LATENCY = "latency";

export const isAdmitted = ({ outcome }: Pick<CallLine, "outcome">): boolean => classOf(outcome) === "answered";

type Knee =
  /** Calls per second with a 95 % interval; `by`: the outcome that limits the rate, or `latency`. */
  | {
      readonly found: true;
      readonly capacityPerS: number;
      readonly low: number;
      readonly high: number;
      readonly by: string;
    }
  /** `atLeastPerS`: the rate up to which nearly every call was admitted; 0 if there is none. */
  | { readonly found: false; readonly reason: string; readonly atLeastPerS: number };

/** Fewer calls than this show nothing. */
const CALLS_MIN = 4;
/** A step is past the knee if it refuses at least this share: more than chance refuses below capacity. */
const PAST = 0.2;
/** A step is carried if less than this share of its calls was not admitted. */
const CARRIED = 0.05;
/** A knee is found if at least this many steps at the end of the ramp are past it. */
const ENOUGH_STEPS = 2;
/** A step is slow if its median stay is more than this many times that at the lowest rates. */
const SLOW = 3;
/** How many admitted calls at the lowest rates show how long a call stays in an idle target. */
const CALM_CALLS = 16;

const isOfLoad = (outcome: string): boolean => /^(429|503|5\d\d|edge|indeterminate)/.test(outcome);

const commonest = (calls: readonly CallLine[]): string => {
  const counts = new Map<string, number>();
  for (const { outcome } of calls) counts.set(outcome, (counts.get(outcome) ?? 0) + 1);
  return [...counts].reduce((most, one) => (one[1] > most[1] ? one : most), ["", 0])[0];
};

const medianStayUs = (calls: readonly CallLine[]): number | null =>
  median(calls.filter(isAdmitted).map(({ intended_us: due, done_us: done }) => done - due));

/** The calls of each step, by the moments when they were due and in that order. */
const stepsOf = (lines: readonly CallLine[], ramp: Profile, startUs: number | undefined) => {
  const ordered = lines.toSorted((a, b) => a.intended_us - b.intended_us);
  let endsUs = startUs ?? ordered[0]?.intended_us ?? 0;
  const steps = ramp.pieces.map(({ from, to, durationS }, at) => {
    const fromUs = endsUs;
    const toUs = fromUs + durationS * 1e6;
    endsUs = toUs;
    const calls = ordered.filter(({ intended_us: due }) => (at === 0 || due >= fromUs) && due < toUs);
    return { fromUs, toUs, ratePerS: (from + to) / 2, calls };
  });
  // The median stay of the first admitted calls, when the target had least to do.
  const calm: CallLine[] = [];
  for (const { calls } of steps) if (calm.length < CALM_CALLS) calm.push(...calls.filter(isAdmitted));
  const calmUs = medianStayUs(calm);
  return steps.map((step) => {
    const { calls } = step;
    const refused = calls.length === 0 ? 0 : calls.filter((call) => !isAdmitted(call)).length / calls.length;
    const stayUs = medianStayUs(calls);
    // 5 ms more may be due to the machine, not to a queue.
    const isSlow = stayUs !== null && calmUs !== null && stayUs > SLOW * calmUs + 5_000;
    return { ...step, isCarried: refused < CARRIED && !isSlow, isPast: refused >= PAST || isSlow };
  });
};

type Step = ReturnType<typeof stepsOf>[number];

const endedIn = (admitted: readonly CallLine[], { fromUs, toUs }: Span): CallLine[] =>
  admitted.filter(({ done_us: us }) => us >= fromUs && us < toUs);

/**
 * The rate at which calls are served in a span: mean in flight over mean stay (Little, "A Proof for the Queuing Formula
 * L = λW", Operations Research 9, 1961), which holds for calls that last longer than the span. `n`: the calls that show it.
 */
const servedIn = (admitted: readonly CallLine[], { fromUs, toUs }: Span) => {
  const overlapping = admitted.filter(({ sent_us: sent, done_us: done }) => done > fromUs && sent < toUs);
  const inFlightUs = sumOf(
    overlapping.map(({ sent_us: sent, done_us: done }) => Math.min(done, toUs) - Math.max(sent, fromUs)),
  );
  const began = dueWithin(overlapping, { fromUs, toUs });
  const counted = began.length >= CALLS_MIN ? began : overlapping;
  const stayS = (mean(counted.map(({ sent_us: sent, done_us: done }) => done - sent)) ?? 0) / 1e6;
  if (stayS === 0) return { perS: 0, n: 0, atMostPerS: 0, stayS };
  // A place may be empty between two arrivals, so the most calls ever in flight at once bound the rate from above.
  const atOnce = mostAtOnce(overlapping.map(({ sent_us: sent, done_us: done }) => [sent, done] as const));
  return { perS: inFlightUs / (toUs - fromUs) / stayS, n: counted.length, atMostPerS: atOnce / stayS, stayS };
};

/**
 * Returns the rate admitted past the knee, how many calls show it, and its upper bound. Before the knee more is admitted,
 * because a key's bucket is full and slots are empty. A limited rate is admitted calls over time; for limited calls in
 * flight, see `servedIn`.
 */
const admittedRate = (
  admitted: readonly CallLine[],
  span: Span,
  by: string,
): Omit<ReturnType<typeof servedIn>, "stayS"> => {
  if (by !== RATE_LIMITED && by !== LATENCY) return servedIn(admitted, span);
  // A growing queue carries the calls that it completes, not those that enter.
  const { length: n } = by === LATENCY ? endedIn(admitted, span) : dueWithin(admitted, span);
  const perS = (n * 1e6) / (span.toUs - span.fromUs);
  return { perS, n, atMostPerS: perS };
};

/** The highest of several rates is less biased the more calls each has. */
const SPAN_CALLS = 60;
/** A span is in steady state for two thirds of its time if a call lasts at most this share of it. */
const SETTLED_SHARE = 1 / 3;

type BestSpan = (Span & { surelyPerS: number }) | null;

/** The settled span of steps that was surely served at the highest rate; `null` where calls are too few or last too long. */
const bestSpan = (steps: readonly Step[], admitted: readonly CallLine[]): BestSpan => {
  let best: BestSpan = null;
  for (const [at, { fromUs }] of steps.entries()) {
    for (const { toUs } of steps.slice(at)) {
      const { perS, n, stayS } = servedIn(admitted, { fromUs, toUs });
      if (n < SPAN_CALLS || 1e6 * stayS > SETTLED_SHARE * (toUs - fromUs)) continue;
      // Counts of served calls vary at most like those of a Poisson process.
      const surelyPerS = perS - (Z_95 * perS) / Math.sqrt(n);
      if (surelyPerS > (best?.surelyPerS ?? 0)) best = { fromUs, toUs, surelyPerS };
      break;
    }
  }
  return best;
};

/** `surelyPerS`: what the best span was served at; a server that collapses carries less past its knee than at it. */
const kneeOf = (steps: readonly Step[], calls: readonly CallLine[], surelyPerS: number): Knee => {
  const notCarried = steps.findIndex(({ isCarried }) => !isCarried);
  const carried = steps.slice(0, notCarried < 0 ? undefined : notCarried).findLast((step) => step.calls.length > 0);
  const none = (reason: string): Knee => ({ found: false, reason, atLeastPerS: carried?.ratePerS ?? 0 });
  if (calls.length < CALLS_MIN) return none(`the ramp had ${calls.length} calls`);
  const admitted = calls.filter(isAdmitted);
  if (admitted.length === 0) return none(`no call was admitted at any rate: ${commonest(calls)}`);
  const refused = calls.filter((call) => !isAdmitted(call));
  const strange = refused.filter(({ outcome }) => !isOfLoad(outcome));
  if (strange.length > refused.length / 2) return none(`calls were refused whatever the rate: ${commonest(strange)}`);
  // The steps at the end that are all past the knee, of those with enough calls.
  const counted = steps.filter((step) => step.calls.length >= CALLS_MIN);
  const pastSteps = counted.slice(counted.findLastIndex(({ isPast }) => !isPast) + 1);
  const [first] = pastSteps;
  if (first === undefined || pastSteps.length < ENOUGH_STEPS) {
    const top = steps.findLast((step) => step.calls.length > 0)?.ratePerS ?? 0;
    const some =
      refused.length === 0 ? "nothing was refused" : `only ${refused.length} of ${calls.length} were refused`;
    return none(
      `${some} up to ${top.toFixed(1)} calls/s, so it was not reached; a higher \`permits.load_max_rps\` may reach it`,
    );
  }
  const past = steps.slice(steps.indexOf(first)).flatMap((step) => step.calls);
  const pastRefused = past.filter((call) => !isAdmitted(call));
  const by = pastRefused.length >= (PAST / 2) * past.length ? commonest(pastRefused) : LATENCY;
  const fromUs = by === LATENCY ? first.fromUs : (pastRefused[0] as CallLine).intended_us;
  const toUs = Math.max(...past.map(({ intended_us: us }) => us));
  const { perS: pastPerS, n, atMostPerS } = admittedRate(admitted, { fromUs, toUs }, by);
  // A bucket that is full at first lets steps carry more than a key's rate, so they are no lower bound of it.
  const perS = by === RATE_LIMITED ? pastPerS : Math.max(pastPerS, surelyPerS);
  if (n < CALLS_MIN || !(pastPerS > 0))
    return none(`only ${n} calls were admitted past the knee (${by}): too few to count`);
  // Counts of admitted calls vary at most like those of a Poisson process.
  const half = (Z_95 * perS) / Math.sqrt(n);
  const [low, high] = [Math.max(0, perS - half), Math.max(perS + half, atMostPerS)];
  return { found: true, capacityPerS: perS, low, high, by };
};

/** A step counts from so many calls on. With fewer, chance or slots that were still empty decide whether it is carried. */
const STEP_CALLS = 30;
/** Calls due in a span that was served at this rate. */
const rampStep = (ratePerS: number, calls: readonly CallLine[]): RampStep[] => {
  const stay = medianOf(calls.filter(isAdmitted).map(stayMs));
  return stay === null ? [] : [{ rate_per_s: ratePerS, stay_ms: stay }];
};

/** The steps up to the first that was not carried, and the best span, if it was served at a higher rate. */
const servedSteps = (steps: readonly Step[], calls: readonly CallLine[], best: BestSpan): RampStep[] => {
  const admitted = calls.filter(isAdmitted);
  const counted = steps.filter((step) => step.calls.length >= STEP_CALLS);
  const end = counted.findIndex(({ isCarried }) => !isCarried);
  // Calls that outlast a step do not fill the deployment within it, so their number in flight bounds the rate.
  const carried = counted
    .slice(0, end < 0 ? undefined : end)
    .flatMap((step) => rampStep(Math.min(step.ratePerS, servedIn(admitted, step).perS), step.calls));
  // A deployment of few slots refuses calls of every step near its knee, so its carried steps end far below it.
  const isHigher = best !== null && best.surelyPerS > (carried.at(-1)?.rate_per_s ?? 0);
  return isHigher ? [...carried, ...rampStep(best.surelyPerS, dueWithin(calls, best))] : carried;
};

/**
 * The knee of a ramp, and the rates at which it was served. `startUs`: when the ramp began, by the clock of its lines;
 * where absent, when its first call should have left.
 */
export const readRamp = (lines: readonly CallLine[], ramp: Profile, startUs?: number) => {
  // Sessions are minted before the ramp.
  const calls = lines.filter(({ route }) => route !== "sdk.sessions");
  const steps = stepsOf(calls, ramp, startUs);
  const best = bestSpan(steps, calls.filter(isAdmitted));
  return { knee: kneeOf(steps, calls, best?.surelyPerS ?? 0), served: servedSteps(steps, calls, best) };
};

/** The result as stories read it (`capacity` of their view). */
export const rateFoundOf = (knee: Knee): RateFound | null => {
  if (knee.found) return { perS: knee.capacityPerS, by: knee.by };
  return knee.atLeastPerS > 0 ? { perS: knee.atLeastPerS, by: null } : null;
};
