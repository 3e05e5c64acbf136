/**
 * Was it the generator? A probe counts against the deployment only when its calls left when they should have; a busy host or
 * a generator at its end is told in a sentence, and the probe is left out.
 */
import type { GeneratorFacts, ProbeResult } from "./probe.ts";

/** A call in a hundred may leave this late without changing what the deployment sees. */
const LAG_MS = 20;
const CPU_SHARE = 0.9;
const STEAL_SHARE = 0.1;
/** Calls that may have waited for one of our connections, of all. */
const QUEUED_SHARE = 0.001;

/** `null` when the generator kept up. */
export const generatorDoubt = ({ generator, calls }: ProbeResult): string | null => {
  const { lagMsP99, dropped, queued, unmade, cpuShare, stealShare }: GeneratorFacts = generator;
  if (dropped > 0) return `${dropped} calls were not sent`;
  if (unmade > 0) return `${unmade} calls could not be made`;
  if (queued > calls * QUEUED_SHARE) return `${queued} calls may have waited for one of our connections`;
  if (lagMsP99 > LAG_MS) return `calls left ${lagMsP99.toFixed(0)} ms late (p99)`;
  if ((cpuShare ?? 0) > CPU_SHARE) return `the generator used ${((cpuShare ?? 0) * 100).toFixed(0)} % of a core`;
  if ((stealShare ?? 0) > STEAL_SHARE)
    return `the hypervisor took ${((stealShare ?? 0) * 100).toFixed(0)} % of the CPU`;
  return null;
};

export type Ceiling = { ratePerS: number; doubt: string };

/** The lowest rate that was spoilt twice, unless as much was played well some other time. */
export const ceilingOf = (results: readonly ProbeResult[]): Ceiling | null => {
  const played = Math.max(0, ...results.flatMap((r) => (generatorDoubt(r) === null ? [r.plan.ratePerS] : [])));
  const spoilt = results.flatMap((result) => {
    const doubt = generatorDoubt(result);
    return doubt === null || result.plan.ratePerS <= played ? [] : [{ ratePerS: result.plan.ratePerS, doubt }];
  });
  const twice = spoilt.filter(({ ratePerS }, i) => spoilt.some((other, j) => j < i && other.ratePerS === ratePerS));
  return twice.length === 0 ? null : twice.reduce((a, b) => (b.ratePerS < a.ratePerS ? b : a));
};

const perS = (rate: number): string => `${rate < 10 ? rate.toFixed(1) : rate.toFixed(0)}/s`;

/** What speaks for the answer not being the generator's limit, for a reader who doubts it. */
export const generatorEvidence = (results: readonly ProbeResult[], answerPerS: number): string => {
  const above = results.filter(({ plan }) => plan.ratePerS >= answerPerS * 0.95);
  const clean = above.filter((result) => generatorDoubt(result) === null);
  if (clean.length === 0) return "no probe at or above the answer was played without a doubt about the generator";
  const highest = clean.reduce((a, b) => (b.plan.ratePerS > a.plan.ratePerS ? b : a));
  const times = highest.plan.ratePerS / answerPerS;
  const lag = Math.max(...clean.map(({ generator }) => generator.lagMsP99));
  const cpu = Math.max(...clean.map(({ generator }) => generator.cpuShare ?? 0));
  const notes = new Set(above.flatMap(({ generator }) => generator.notes));
  const left = above.length - clean.length;
  return [
    `the generator played up to ${perS(highest.plan.ratePerS)} (${times.toFixed(1)} times the answer) on schedule`,
    `in ${clean.length} probes at or above the answer nothing was dropped or queued, calls left at most ${lag.toFixed(1)} ms late (p99)`,
    ...(cpu > 0 ? [`it used at most ${(cpu * 100).toFixed(0)} % of a core`] : []),
    ...(left > 0 ? [`${left} probes were left out because it, or its host, was disturbed`] : []),
    ...[...notes].slice(0, 3),
  ].join("; ");
};
