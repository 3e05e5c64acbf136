/**
 * One probe of a capacity search: a short block of calls at a steady rate, its warm-up left out, and what came of it. Every
 * objective is a limit on a share of calls: `refusals<=1%` as it stands, `p99<=300ms` as "at most 1 % take longer".
 */

/** Why the rate is played: to find a rate that breaks, to narrow it down, to be sure of the answer, to try the generator. */
export type Purpose = "bracket" | "narrow" | "confirm" | "beyond";

export type ProbePlan = {
  readonly purpose: Purpose;
  /** Calls per second. */
  readonly ratePerS: number;
  /** Seconds at the beginning of which nothing is counted. */
  readonly warmUpS: number;
  /** Seconds that count, at the most. */
  readonly playS: number;
  /** The probe may end as soon as its verdict is clear. */
  readonly mayStopEarly: boolean;
  /** For each objective, how many times more a tally varies than that of independent calls would, as known beforehand. */
  readonly dispersions: readonly number[];
};

/** Calls that an objective speaks of, and how many of them are against it. */
export type Tally = { bad: number; n: number };

/** `blocks` are stretches of the probe, long beside a call: how much they differ says how far calls hang together. */
export type ObjectiveTally = Tally & { readonly blocks: readonly Tally[] };

/** What the generator and its host did meanwhile. Shares are of one core; `null` where it was not measured. */
export type GeneratorFacts = {
  readonly lagMsP99: number;
  readonly dropped: number;
  readonly queued: number;
  readonly unmade: number;
  readonly cpuShare: number | null;
  readonly stealShare: number | null;
  readonly notes: readonly string[];
};

export type ProbeResult = {
  readonly plan: ProbePlan;
  /** Seconds that counted. */
  readonly playedS: number;
  /** Calls that counted. */
  readonly calls: number;
  /** In the order of the objectives. */
  readonly tallies: readonly ObjectiveTally[];
  /** As in `by_outcome` of a run, of the calls that counted. */
  readonly outcomes: Readonly<Record<string, number>>;
  readonly latencyMsP50: number | null;
  readonly generator: GeneratorFacts;
};

export type ProbeVerdict = "met" | "broken" | "open";

/** Calls per second as they came out: a Poisson schedule offers somewhat more or less than its rate. */
export const offeredPerS = ({ calls, playedS, plan }: ProbeResult): number =>
  playedS > 0 && calls > 0 ? calls / playedS : plan.ratePerS;
