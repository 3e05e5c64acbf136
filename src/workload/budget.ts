/**
 * What a driver may still spend on a deployment, and how fast: `budget`, `permits.load_max_rps` and `stop_when` of the
 * target file, asked before each call leaves. Pure: time is an argument. The same in Go: native/sse/budget.go.
 */
import { isError } from "../contract/refusals.ts";
import type { StreamEnding } from "../contract/streams.ts";

/** An absent field is not bounded. */
export type Budget = {
  readonly requests?: number;
  /** Admitted calls that charge a map load. */
  readonly map_loads?: number;
  readonly analyses?: number;
  /** Seconds that streams may be open, added up over all of them. */
  readonly stream_seconds?: number;
  /** Calls per second; no second has more than 1.05 times as many. */
  readonly maxPerS?: number;
  /** The share of errors among the newest calls that stops the run. */
  readonly stopErrorRate?: number;
  /** Outcomes that do not count as errors, because an injected fault causes them. */
  readonly tolerated?: readonly string[];
};

type Writable = { -readonly [unit in keyof Budget]: Budget[unit] };

const UNITS = ["requests", "map_loads", "analyses", "stream_seconds"] as const;

type Unit = (typeof UNITS)[number];

export type Spent = Record<Unit, number>;

export const NOTHING_SPENT: Spent = { requests: 0, map_loads: 0, analyses: 0, stream_seconds: 0 };

export const addSpent = (a: Spent, b: Spent): Spent =>
  Object.fromEntries(UNITS.map((unit) => [unit, a[unit] + b[unit]])) as Spent;

export type Charging = { readonly charge?: "map_loads" | "analyses"; readonly stream?: boolean };

export type Became = {
  readonly outcome: string;
  /** The request was written. A refused connection sends nothing. */
  readonly sent: boolean;
  readonly sentUs: number;
  readonly doneUs: number;
  readonly ending?: StreamEnding;
};

export type Stopped = {
  /**
   * Why sending stopped. `spent`: a budget, or this process's share of one, is used up; `errors`: too many calls failed;
   * `asked`: somebody outside asked for it; `failed`: the process could not go on.
   */
  readonly by: "spent" | "errors" | "asked" | "failed";
  readonly reason: string;
};

/** Calls leave below the permitted rate, because networks bunch them. */
const RATE_SHARE = 0.95;
const BURST_SHARE = 0.05;
/** A call that wakes later asks for another turn: one second then holds 0.95 × 1.05 + 0.05 of the rate, below 1.05. */
const LATE_US = 50_000;
/** The stop condition covers the calls that ended in the last second, but at least this many. */
const WINDOW_US = 1_000_000;
const WINDOW_CALLS = 10;

/** Spaces calls by the generic cell rate algorithm (ITU-T I.371), with a burst of a twentieth of a second's calls. */
const createSpacing = (maxPerS: number | undefined): ((nowUs: number) => number) => {
  if (maxPerS === undefined) return () => 0;
  const stepUs = 1e6 / (RATE_SHARE * maxPerS);
  const toleranceUs = Math.max(0, Math.floor(BURST_SHARE * maxPerS) - 1) * stepUs;
  let dueUs = Number.NEGATIVE_INFINITY;
  return (nowUs) => {
    dueUs = Math.max(dueUs, nowUs);
    const waitUs = Math.max(0, dueUs - toleranceUs - nowUs);
    dueUs += stepUs;
    return waitUs;
  };
};

export const createErrorWatch = (limit: number | undefined) => {
  const ended: { atUs: number; isError: boolean }[] = [];
  let errors = 0;
  return (nowUs: number, wrong: boolean): Stopped | null => {
    if (limit === undefined) return null;
    ended.push({ atUs: nowUs, isError: wrong });
    if (wrong) errors += 1;
    while (ended.length > WINDOW_CALLS && (ended[0]?.atUs ?? nowUs) < nowUs - WINDOW_US) {
      if (ended.shift()?.isError === true) errors -= 1;
    }
    if (ended.length < WINDOW_CALLS || errors <= limit * ended.length) return null;
    const reason = `stop_when.error_rate of the target file (${limit}) is exceeded: ${errors} of the newest ${ended.length} calls were errors`;
    return { by: "errors", reason };
  };
};

/** `stated`: the whole budget of the target file, for messages. */
export const guardBudget = (budget: Budget, stated: Budget = budget) => {
  const spent: Spent = { ...NOTHING_SPENT };
  const spacing = createSpacing(budget.maxPerS);
  const watch = createErrorWatch(budget.stopErrorRate);
  let openStreams = 0;
  let beganSumUs = 0;
  let stopped: Stopped | null = null;
  /** Charges of calls in flight. They count as spent until an answer shows that nothing was charged. */
  const reserved = { map_loads: 0, analyses: 0 };
  let waiting: (() => void)[] = [];
  const wake = (): void => {
    const all = waiting;
    waiting = [];
    for (const resume of all) resume();
  };

  const streamSecondsAt = (nowUs: number) => spent.stream_seconds + Math.max(0, openStreams * nowUs - beganSumUs) / 1e6;

  const lacking = (nowUs: number, { charge, stream }: Charging): Unit | null => {
    if (spent.requests + 1 > (budget.requests ?? Number.POSITIVE_INFINITY)) return "requests";
    if (charge !== undefined && spent[charge] + 1 > (budget[charge] ?? Number.POSITIVE_INFINITY)) return charge;
    const seconds = budget.stream_seconds ?? Number.POSITIVE_INFINITY;
    if (stream === true && streamSecondsAt(nowUs) >= seconds) return "stream_seconds";
    return null;
  };

  return {
    /** Reserves one call. `null`: do not send; while `stopped` is `null`, calls in flight hold the rest: retry later. */
    take: (nowUs: number, charging: Charging = {}) => {
      if (stopped !== null) return null;
      const unit = lacking(nowUs, charging);
      const { charge, stream } = charging;
      if (unit !== null) {
        // Calls in flight may turn out to be uncharged.
        if (unit === charge && spent[charge] - reserved[charge] < (budget[charge] ?? 0)) return null;
        stopped = { by: "spent", reason: `budget.${unit} of the target file (${stated[unit]}) is spent` };
        wake();
        return null;
      }
      spent.requests += 1;
      // Reserved before sending, so that concurrent calls never exceed the budget; returned on refusal.
      if (charge !== undefined) {
        spent[charge] += 1;
        reserved[charge] += 1;
      }
      const waitUs = spacing(nowUs);
      const beganUs = nowUs + waitUs;
      let turnUs = beganUs;
      if (stream === true) {
        openStreams += 1;
        beganSumUs += beganUs;
      }
      let settled = false;
      return {
        waitUs,
        /** Called after the wait: how much longer to wait if the process woke so late that it lost its turn; 0: leave now. */
        waitAgainUs: (atUs: number): number => {
          if (atUs - turnUs <= LATE_US) return 0;
          turnUs = atUs + spacing(atUs);
          return turnUs - atUs;
        },
        /** Reports whether the call may leave after its wait: also if the budget is spent, because that includes this call. */
        mayLeave: (): boolean => !endsAll(stopped),
        /** Records the result of the call. Only the first use counts. */
        settle: (atUs: number, { outcome, sent, sentUs, doneUs, ending = {} }: Became): void => {
          if (settled) return;
          settled = true;
          if (stream === true) {
            openStreams -= 1;
            beganSumUs -= beganUs;
            if (outcome.startsWith("200")) spent.stream_seconds += Math.max(0, doneUs - sentUs) / 1e6;
          }
          if (!sent) spent.requests -= 1;
          const mayBeCharged = sent && (/^(?:edge )?2/.test(outcome) || outcome === "indeterminate");
          if (charge !== undefined) reserved[charge] -= 1;
          if (charge !== undefined && !mayBeCharged) spent[charge] -= 1;
          stopped ??= watch(atUs, isError(outcome, ending, budget.tolerated));
          wake();
        },
      };
    },
    /** Adds what another process spent of the same budget. */
    absorb: (more: Spent, why: Stopped | null): void => {
      Object.assign(spent, addSpent(spent, more));
      stopped ??= why;
      wake();
    },
    /** Resolves when one more call has settled, or sending has stopped. */
    settled: (): Promise<void> => new Promise((resolve) => void waiting.push(resolve)),
    stated,
    spent: (): Spent => ({ ...spent }),
    left: (): Budget => {
      const left: Writable = { ...budget };
      for (const unit of UNITS) {
        const all = budget[unit];
        if (all !== undefined) left[unit] = Math.max(0, all - spent[unit]);
      }
      return left;
    },
    get stopped(): Stopped | null {
      return stopped;
    },
  };
};

export type BudgetGuard = ReturnType<typeof guardBudget>;
export type Taken = NonNullable<ReturnType<BudgetGuard["take"]>>;

/** The share of one of several processes of a schedule; the shares never exceed the whole. */
export const budgetShare = (budget: Budget, index: number, of: number): Budget => {
  if (of === 1) return budget;
  const share: Writable = { ...budget };
  for (const unit of ["requests", "map_loads", "analyses"] as const) {
    const all = budget[unit];
    if (all !== undefined) share[unit] = Math.floor(all / of) + (index < all % of ? 1 : 0);
  }
  if (budget.stream_seconds !== undefined) share.stream_seconds = budget.stream_seconds / of;
  if (budget.maxPerS !== undefined) share.maxPerS = budget.maxPerS / of;
  return share;
};

/** Reports whether this stop ends the load of the other processes too; an exhausted share does not. */
export const endsAll = (stopped: Stopped | null): boolean => stopped !== null && stopped.by !== "spent";

export type StatedBounds = {
  readonly budget?: Partial<Readonly<Spent>>;
  readonly permits?: { readonly load_max_rps?: number };
  readonly stop_when?: { readonly error_rate?: number };
};

export const statedBudget = ({ budget = {}, permits, stop_when }: StatedBounds): Budget => {
  const { requests, map_loads, analyses, stream_seconds } = budget;
  const [maxPerS, stopErrorRate] = [permits?.load_max_rps, stop_when?.error_rate];
  return { requests, map_loads, analyses, stream_seconds, maxPerS, stopErrorRate };
};
