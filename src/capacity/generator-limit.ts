/** Finds probes that the generator or its host spoilt, which are left out, and says why in a sentence. */
import { OTHERS_HALF } from "../history/time-doubts.ts";
import { type ProbeResult, perS } from "./probe.ts";

/** A p99 lag up to this, or up to this share of the median latency, does not change what the deployment sees. */
const LAG_MS = 20;
const LAG_SHARE = 0.1;
/**
 * Nearly all of a core: beyond that calls are missing or late for sure. Whether a measured time may be believed is another
 * question, with a lower limit (`history/time-doubts.ts`).
 */
const CPU_SHARE = 0.9;
const STEAL_SHARE = 0.1;
/** A control group that stands still for a tenth of the time sends or serves a tenth less. */
const THROTTLED_SHARE = 0.1;
/** The allowed share of calls that may have waited for one of our connections. */
const QUEUED_SHARE = 0.001;

const percent = (share: number | null): string => `${(100 * (share ?? 0)).toFixed(0)} %`;

/** Says what only the generator or its connections can cause, such as calls that were not sent. */
const shortfall = ({ generator, calls }: ProbeResult): string | null => {
  const { dropped, queued, unmade, cpuShare } = generator;
  if (dropped > 0) return `${dropped} calls were not sent`;
  if (unmade > 0) return `${unmade} calls could not be made`;
  if (queued > calls * QUEUED_SHARE) return `${queued} calls may have waited for one of our connections`;
  if ((cpuShare ?? 0) > CPU_SHARE) return `the generator used ${percent(cpuShare)} of a core`;
  return null;
};

/** Says how the machine was short of CPU time, or that calls left late, whoever caused that. */
const disturbance = ({ generator, latencyMsP50 }: ProbeResult): string | null => {
  const { lagMsP99, stealShare, throttledShare, othersShare } = generator;
  if ((stealShare ?? 0) > STEAL_SHARE) return `the hypervisor took ${percent(stealShare)} of the CPU`;
  if ((throttledShare ?? 0) > THROTTLED_SHARE)
    return `the limit of our control group held it back for ${percent(throttledShare)} of the time; raise that limit`;
  if ((othersShare ?? 0) > OTHERS_HALF)
    return `other programs used ${percent(othersShare)} of this machine while no call was under way; end them, or search on a machine without them`;
  if (lagMsP99 > Math.max(LAG_MS, LAG_SHARE * (latencyMsP50 ?? 0)))
    return `calls left ${lagMsP99.toFixed(0)} ms late (p99)`;
  return null;
};

/**
 * Says why a probe is left out; `null` if the generator kept up. Late calls come in bunches, which are harder to serve,
 * so a bracket's probe without a bad call counts all the same. Near the answer that would keep only lucky probes.
 */
export const generatorDoubt = (result: ProbeResult): string | null => {
  const isFlawless = result.plan.purpose === "bracket" && result.tallies.every(({ bad }) => bad === 0);
  return shortfall(result) ?? (isFlawless ? null : disturbance(result));
};

export type Ceiling = { ratePerS: number; doubt: string };

/** A rate that was spoilt this many times is beyond the generator. */
const TIMES = 2;
/** Below this CPU share the host causes late calls, and another try may succeed. */
const BUSY_SHARE = 0.5;

const isOwnDoing = (result: ProbeResult): boolean =>
  shortfall(result) !== null || (disturbance(result) !== null && (result.generator.cpuShare ?? 0) > BUSY_SHARE);

/** The lowest rate that the generator spoilt `TIMES` times, if above every rate that it played well. */
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
  const others = clean.flatMap(({ generator }) => generator.othersShare ?? []);
  return [
    `the generator played up to ${perS(highest.plan.ratePerS)}${times} on schedule`,
    `in ${clean.length} probes at or above the answer nothing was dropped or queued, calls left at most ${lag.toFixed(1)} ms late (p99)`,
    ...(cpu > 0 ? [`it used at most ${percent(cpu)} of a core`] : []),
    ...(others.length > 0
      ? [`between probes other programs used at most ${percent(Math.max(...others))} of the machine`]
      : []),
    ...(left > 0 ? [`${left} probes were left out because it, or its host, was disturbed`] : []),
    ...[...notes].slice(0, 3),
  ].join("; ");
};
