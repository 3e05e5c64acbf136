/**
 * What a driver may still spend on somebody's deployment, and how fast: `budget`, `permits.load_max_rps` and `stop_when` of the
 * target file. It is asked before each call leaves; what it refuses is not sent. Pure: the time is handed in, so that every
 * driver and the simulation keep to the same rules. The same in Go: native/sse/budget.go.
 */
import { isError } from "../contract/refusals.ts";
import type { StreamEnding } from "../contract/streams.ts";

/** Absent: not bounded. */
export type Budget = {
  /** Requests that may still leave. */
  readonly requests?: number;
  /** Admitted calls that charge a map load. */
  readonly map_loads?: number;
  readonly analyses?: number;
  /** Seconds that streams may be open, added up over all of them. */
  readonly stream_seconds?: number;
  /** Calls per second: no second holds more than 1.05 times as many. */
  readonly maxPerS?: number;
  /** Share of errors among the newest calls that ends the run. */
  readonly stopErrorRate?: number;
  /** Outcomes that are no errors, because a fault that is injected now brings them about. */
  readonly tolerated?: readonly string[];
};

type Writable = { -readonly [unit in keyof Budget]: Budget[unit] };

export type Spent = { requests: number; map_loads: number; analyses: number; stream_seconds: number };

export const NOTHING_SPENT: Spent = { requests: 0, map_loads: 0, analyses: 0, stream_seconds: 0 };

export const addSpent = (a: Spent, b: Spent): Spent => ({
  requests: a.requests + b.requests,
  map_loads: a.map_loads + b.map_loads,
  analyses: a.analyses + b.analyses,
  stream_seconds: a.stream_seconds + b.stream_seconds,
});

/** What a call would use up beside itself. */
export type Charging = { readonly charge?: "map_loads" | "analyses"; readonly stream?: boolean };

export type Taken = {
  /** Microseconds to wait before the call leaves, for the rate. */
  readonly waitUs: number;
  /** To be asked after the wait: how much longer, where the process woke so late that the turn is lost; 0 when it may leave. */
  waitAgainUs(nowUs: number): number;
  /** Whether it may still leave after the wait: a budget that later calls found spent includes this one, errors end it. */
  mayLeave(): boolean;
  /** To be called once, when it is known what became of the call. */
  settle(nowUs: number, became: Became): void;
};

export type Became = {
  readonly outcome: string;
  /** Whether the request was written: a connection that was refused is none that the target saw. */
  readonly sent: boolean;
  /** When it was written and when the answer had ended. */
  readonly sentUs: number;
  readonly doneUs: number;
  /** How it ended, where it is a stream. */
  readonly ending?: StreamEnding;
};

/** Why nothing is sent any more: a code for programs, a sentence for people. */
export type Stopped = {
  /** `spent`: a budget, or a process's share of one. `asked`: from outside. `failed`: the process could not go on. */
  readonly by: "spent" | "errors" | "asked" | "failed";
  readonly reason: string;
};

export type BudgetGuard = {
  /**
   * `null`: it must not be sent; `stopped` says why. Where `stopped` is `null` as well, all that is left is reserved by calls
   * in flight: ask again when `settled` resolves.
   */
  take(nowUs: number, charging?: Charging): Taken | null;
  /** Resolves when it is known of one more call what became of it, or nothing is sent any more. */
  settled(): Promise<void>;
  /** Adds what another process spent of the same budget. */
  absorb(spent: Spent, stopped: Stopped | null): void;
  spent(): Spent;
  /** What is left of the budget. */
  left(): Budget;
  /** The whole of what was stated, of which this may be a share or a rest. */
  readonly stated: Budget;
  readonly stopped: Stopped | null;
};

/** The rate that calls leave at lies below the permitted one: a network bunches them on their way. */
const RATE_SHARE = 0.95;
const BURST_SHARE = 0.05;
/** A call that wakes later than this has lost its turn. A second holds 0.95 × 1.05 + 0.05 of the rate at most, which is below 1.05. */
const LATE_US = 50_000;
/** The stop condition looks at the calls that ended in the last second, and at no fewer than these. */
const WINDOW_US = 1_000_000;
const WINDOW_CALLS = 10;

/** Spaces calls by the generic cell rate algorithm (ITU-T I.371): evenly, with a burst of a twentieth of a second's calls. */
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

/** Share of errors among the newest calls, as far as they are enough to speak of, where it is above the limit. */
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

const UNITS = ["requests", "map_loads", "analyses", "stream_seconds"] as const;

type Unit = (typeof UNITS)[number];

/** `stated`: the whole budget as the target file has it, for the sentence. */
export const guardBudget = (budget: Budget, stated: Budget = budget): BudgetGuard => {
  const spent: Spent = { ...NOTHING_SPENT };
  const spacing = createSpacing(budget.maxPerS);
  const watch = createErrorWatch(budget.stopErrorRate);
  /** When each open stream began, and all of them added up, so that seconds that run are counted too. */
  let openStreams = 0;
  let beganSumUs = 0;
  let stopped: Stopped | null = null;
  /** Charges of calls in flight; they are among `spent` until the answer says that nothing was charged. */
  const reserved = { map_loads: 0, analyses: 0 };
  let waiting: (() => void)[] = [];
  const wake = (): void => {
    const all = waiting;
    waiting = [];
    for (const resume of all) resume();
  };

  const streamSecondsAt = (nowUs: number): number =>
    spent.stream_seconds + Math.max(0, openStreams * nowUs - beganSumUs) / 1e6;

  /** The unit of which there is not enough for one more. */
  const lacking = (nowUs: number, { charge, stream }: Charging): Unit | null => {
    if (spent.requests + 1 > (budget.requests ?? Number.POSITIVE_INFINITY)) return "requests";
    if (charge !== undefined && spent[charge] + 1 > (budget[charge] ?? Number.POSITIVE_INFINITY)) return charge;
    const seconds = budget.stream_seconds ?? Number.POSITIVE_INFINITY;
    if (stream === true && streamSecondsAt(nowUs) >= seconds) return "stream_seconds";
    return null;
  };

  return {
    take: (nowUs, charging = {}) => {
      if (stopped !== null) return null;
      const unit = lacking(nowUs, charging);
      const { charge, stream } = charging;
      if (unit !== null) {
        // Calls in flight may turn out to be charged for nothing.
        if (unit === charge && spent[charge] - reserved[charge] < (budget[charge] ?? 0)) return null;
        // Names what the target file states, whoever had which share of it.
        stopped = { by: "spent", reason: `budget.${unit} of the target file (${stated[unit]}) is spent` };
        wake();
        return null;
      }
      spent.requests += 1;
      // Taken before it is sent, so that calls side by side never pass the budget; given back when it is refused.
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
        waitAgainUs: (atUs) => {
          if (atUs - turnUs <= LATE_US) return 0;
          turnUs = atUs + spacing(atUs);
          return turnUs - atUs;
        },
        mayLeave: () => !endsAll(stopped),
        settle: (atUs, { outcome, sent, sentUs, doneUs, ending = {} }) => {
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
    absorb: (more, why) => {
      Object.assign(spent, addSpent(spent, more));
      stopped ??= why;
      wake();
    },
    settled: () => new Promise((resolve) => void waiting.push(resolve)),
    stated,
    spent: () => ({ ...spent }),
    left: () => {
      const left: Writable = { ...budget };
      for (const unit of UNITS) {
        const all = budget[unit];
        if (all !== undefined) left[unit] = Math.max(0, all - spent[unit]);
      }
      return left;
    },
    get stopped() {
      return stopped;
    },
  };
};

/** The part of one of several processes that share a schedule; together they never pass the whole. */
export const budgetShare = (budget: Budget, index: number, of: number): Budget => {
  if (of === 1) return budget;
  const share: Writable = { ...budget };
  for (const unit of ["requests", "map_loads", "analyses"] as const) {
    const all = budget[unit];
    // The first ones take what is left over.
    if (all !== undefined) share[unit] = Math.floor(all / of) + (index < all % of ? 1 : 0);
  }
  if (budget.stream_seconds !== undefined) share.stream_seconds = budget.stream_seconds / of;
  if (budget.maxPerS !== undefined) share.maxPerS = budget.maxPerS / of;
  return share;
};

/** Whether a process that stopped for this reason ends the load of the others: a share that is spent does not. */
export const endsAll = (stopped: Stopped | null): boolean => stopped !== null && stopped.by !== "spent";

/** What a target file bounds. */
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
