/** Was it the generator? A probe whose calls did not leave on time is left out, and the reason reported in a sentence. */
import { type ProbeResult, perS } from "./probe.ts";

/** A call in a hundred may leave this late, or so late beside a call's length, without changing what the deployment sees. */
const LAG_MS = 20;
const LAG_SHARE = 0.1;
const CPU_SHARE = 0.9;
const STEAL_SHARE = 0.1;
/** Calls that may have waited for one of our connections, of all. */
const QUEUED_SHARE = 0.001;

/** Calls that were not sent, which only the generator or its connections can cause. */
const shortfall = ({ generator, calls }: ProbeResult): string | null => {
  const { dropped, queued, unmade, cpuShare } = generator;
  if (dropped > 0) return `${dropped} calls were not sent`;
  if (unmade > 0) return `${unmade} calls could not be made`;
  if (queued > calls * QUEUED_SHARE) return `${queued} calls may have waited for one of our connections`;
  if ((cpuShare ?? 0) > CPU_SHARE) return `the generator used ${((cpuShare ?? 0) * 100).toFixed(0)} % of a core`;
  return null;
};

/** Calls left late, which a busy host does as well. */
const lateness = ({ generator, latencyMsP50 }: ProbeResult): string | null => {
  const { lagMsP99, stealShare } = generator;
  if (lagMsP99 > Math.max(LAG_MS, LAG_SHARE * (latencyMsP50 ?? 0)))
    return `calls left ${lagMsP99.toFixed(0)} ms late (p99)`;
  if ((stealShare ?? 0) > STEAL_SHARE)
    return `the hypervisor took ${((stealShare ?? 0) * 100).toFixed(0)} % of the CPU`;
  return null;
};

/**
 * `null` when the generator kept up. Late calls come in bunches, which are harder to serve: on the way up a probe without one
 * bad call counts all the same. Near the answer it does not, or only lucky probes would be kept.
 */
export const generatorDoubt = (result: ProbeResult): string | null => {
  const isFlawless = result.plan.purpose === "bracket" && result.tallies.every(({ bad }) => bad === 0);
  return shortfall(result) ?? (isFlawless ? null : lateness(result));
};

export type Ceiling = { ratePerS: number; doubt: string };

/** So often the same rate has to be spoilt before it is more than the generator can do. */
const TIMES = 2;
/** Calls that leave late from a process with less to do than this are the host's doing, and another try may go well. */
const BUSY_SHARE = 0.5;

const isOwnDoing = (result: ProbeResult): boolean =>
  shortfall(result) !== null || (lateness(result) !== null && (result.generator.cpuShare ?? 0) > BUSY_SHARE);

/** The lowest rate that the generator spoilt again and again, unless as much was played well some other time. */
export const ceilingOf = (results: readonly ProbeResult[]): Ceiling | null => {
  const played = Math.max(0, ...results.map((one) => (generatorDoubt(one) === null ? one.plan.ratePerS : 0)));
  const timesAt = (ratePerS: number): number =>
    results.filter((one) => one.plan.ratePerS === ratePerS && isOwnDoing(one)).length;
  const spoilt = results.flatMap((result): Ceiling[] => {
    const doubt = generatorDoubt(result);
    const { ratePerS } = result.plan;
    return doubt === null || ratePerS <= played || timesAt(ratePerS) < TIMES ? [] : [{ ratePerS, doubt }];
  });
  return spoilt.toSorted((a, b) => a.ratePerS - b.ratePerS)[0] ?? null;
};

/** What speaks for the answer not being the generator's limit, for a reader who doubts it. */
export const generatorEvidence = (results: readonly ProbeResult[], answerPerS: number): string => {
  const above = results.filter(({ plan }) => plan.ratePerS >= answerPerS * 0.95);
  const clean = above.filter((result) => generatorDoubt(result) === null);
  if (clean.length === 0) return "no probe at or above the answer was played without a doubt about the generator";
  const highest = clean.reduce((a, b) => (b.plan.ratePerS > a.plan.ratePerS ? b : a));
  const times = answerPerS > 0 ? ` (${(highest.plan.ratePerS / answerPerS).toFixed(1)} times the answer)` : "";
  const lag = Math.max(...clean.map(({ generator }) => generator.lagMsP99));
  const cpu = Math.max(...clean.map(({ generator }) => generator.cpuShare ?? 0));
  const notes = new Set(above.flatMap(({ generator }) => generator.notes));
  const left = above.length - clean.length;
  return [
    `the generator played up to ${perS(highest.plan.ratePerS)}${times} on schedule`,
    `in ${clean.length} probes at or above the answer nothing was dropped or queued, calls left at most ${lag.toFixed(1)} ms late (p99)`,
    ...(cpu > 0 ? [`it used at most ${(cpu * 100).toFixed(0)} % of a core`] : []),
    ...(left > 0 ? [`${left} probes were left out because it, or its host, was disturbed`] : []),
    ...[...notes].slice(0, 3),
  ].join("; ");
};
