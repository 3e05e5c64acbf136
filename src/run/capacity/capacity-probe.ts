/** Plays one probe of a capacity search on a deployment: the open-loop driver at a steady rate, ended early once it is clear. */
import type { ProbePlan, ProbeResult } from "../../capacity/probe.ts";
import { judgeTallies } from "../../capacity/sequential-test.ts";
import type { ShareObjective } from "../../capacity/share-objective.ts";
import { type CallsTallied, tallyCalls, tallyPlainly } from "../../capacity/tally-calls.ts";
import type { Deployment } from "../../deployments/deployment.ts";
import type { RunContext } from "../../deployments/run-context.ts";
import { hostDoubts } from "../../drivers/host-doubts.ts";
import type { OpenLoopJob } from "../../drivers/open-loop/job.ts";
import { type OpenLoop, type OpenLoopResult, startOpenLoop } from "../../drivers/open-loop/open-loop.ts";
import type { CallLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import { NOTHING_SPENT } from "../../workload/budget.ts";
import { constant } from "../../workload/load-profiles.ts";

/** What is the same for all probes of a search. */
export type ProbeSetting = {
  stage: string;
  job: Pick<OpenLoopJob, "story" | "target" | "view" | "arrivals" | "maxOutstanding">;
  objectives: readonly ShareObjective[];
};

export type PlayedProbe = ProbeResult & {
  /** Each objective's value, to be read. */
  shown: string[];
  organizations: number;
  /** As seen on the wire. */
  protocols?: readonly Protocol[];
  /** Why the driver could not play it at all; `null` when it did. */
  failure: string | null;
};

const LOOK_EVERY_MS = 250;
/** A look leaves out calls that may still be under way: refusals end sooner than answers, and would be too many. */
const HOLD_LEAST_US = 100_000;
const HOLD_MOST_US = 5_000_000;
/** A schedule of its own for each probe, the same again for the same seed. */
const SEED_STEP = 7919;

const lookUntilClear = (
  plan: ProbePlan,
  objectives: readonly ShareObjective[],
  lines: readonly CallLine[],
  span: { fromUs: number; nowUs(): number },
  stop: () => void,
): NodeJS.Timeout =>
  setInterval(() => {
    let holdUs = HOLD_LEAST_US;
    for (const line of lines) holdUs = Math.max(holdUs, line.done_us - line.intended_us);
    const toUs = span.nowUs() - Math.min(HOLD_MOST_US, 1.2 * holdUs);
    if (toUs <= span.fromUs) return;
    const tallies = tallyPlainly(lines, objectives, { fromUs: span.fromUs, toUs });
    const limits = objectives.map(({ limit }) => limit);
    if (judgeTallies(tallies, limits, plan.dispersions) !== "open") stop();
  }, LOOK_EVERY_MS);

const generatorFacts = ({ end, host }: OpenLoopResult, stage: string): ProbeResult["generator"] => ({
  lagMsP99: end?.lagMs.p99 ?? 0,
  dropped: end?.dropped ?? 0,
  queued: end?.queued ?? 0,
  unmade: end?.unmade ?? 0,
  cpuShare: host?.cpu_share ?? null,
  stealShare: host?.steal_share ?? null,
  notes: hostDoubts(stage, host),
});

const NOT_BEGUN_LEAD_US = 150_000;

export const playProbe = async (
  context: RunContext,
  deployment: Deployment,
  { stage, job, objectives }: ProbeSetting,
  plan: ProbePlan,
  number: number,
): Promise<PlayedProbe> => {
  const { epochUs, seed, signal, supervisor } = context;
  const { secrets, budget } = deployment;
  const lines: CallLine[] = [];
  const forgets: (() => void)[] = [];
  const loop: OpenLoop = startOpenLoop({
    job: {
      ...job,
      stage,
      epochUs,
      seed: (seed + number * SEED_STEP) % 2 ** 31,
      idPrefix: `${context.run}.${stage}.p${number}.c`,
      profile: constant(plan.ratePerS, plan.warmUpS + plan.playS),
      budget: budget.left(),
      stated: budget.stated,
    },
    secrets,
    onLine: (line) => {
      lines.push(line);
      context.line(line);
    },
    onSpawn: ({ pid }) => {
      if (pid !== undefined) forgets.push(supervisor.adopt("the open-loop driver", pid));
    },
  });
  let stoppedAtUs: number | null = null;
  const stop = (): void => {
    stoppedAtUs ??= context.nowUs();
    loop.stop();
  };
  signal.addEventListener("abort", stop, { once: true });
  let looking: NodeJS.Timeout | undefined;
  try {
    const startUs = await loop.ready.then(
      () => Math.round(context.nowUs() + NOT_BEGUN_LEAD_US),
      () => 0,
    );
    const fromUs = startUs + plan.warmUpS * 1e6;
    if (startUs > 0) loop.go(startUs);
    if (plan.mayStopEarly && startUs > 0) {
      looking = lookUntilClear(plan, objectives, lines, { fromUs, nowUs: context.nowUs }, stop);
    }
    const result = await loop.result;
    budget.absorb(result.spent ?? NOTHING_SPENT, result.stopped);
    const wholeUs = fromUs + plan.playS * 1e6;
    const toUs = Math.min(wholeUs, stoppedAtUs ?? wholeUs);
    const tallied: CallsTallied = tallyCalls(lines, objectives, { fromUs, toUs });
    return {
      ...tallied,
      plan,
      playedS: Math.max(0, (toUs - fromUs) / 1e6),
      protocols: result.end?.protocols ?? [],
      generator: generatorFacts(result, stage),
      failure: result.end === null ? (result.problems[0]?.reason ?? "the driver did not end its schedule") : null,
    };
  } finally {
    clearInterval(looking);
    signal.removeEventListener("abort", stop);
    for (const forget of forgets) forget();
  }
};
