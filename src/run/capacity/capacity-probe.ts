/** Plays one probe of a capacity search on a deployment: the open-loop driver at a steady rate, ended early once it is clear. */
import type { ProbePlan, ProbeResult } from "../../capacity/probe.ts";
import { judgeTallies } from "../../capacity/sequential-test.ts";
import type { ShareObjective } from "../../capacity/share-objective.ts";
import { tallyCalls, tallyPlainly } from "../../capacity/tally-calls.ts";
import type { Deployment } from "../../deployments/deployment.ts";
import type { RunContext } from "../../deployments/run-context.ts";
import type { DriveJob } from "../../drivers/driver.ts";
import { hostDoubts } from "../../drivers/host-doubts.ts";
import type { CallLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import { playLevel } from "../../stages/level.ts";
import { constant } from "../../workload/load-profiles.ts";

/** What is the same for all probes of a search. */
export type ProbeSetting = {
  stage: string;
  job: Pick<DriveJob, "story" | "view" | "arrivals">;
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

/** A look leaves out calls that may still be under way: refusals end sooner than answers, and would be too many. */
const HOLD_LEAST_US = 100_000;
const HOLD_MOST_US = 5_000_000;
/** A schedule of its own for each probe, the same again for the same seed. */
const SEED_STEP = 7919;

export const playProbe = async (
  context: RunContext,
  deployment: Deployment,
  { stage, job, objectives }: ProbeSetting,
  plan: ProbePlan,
  number: number,
): Promise<PlayedProbe> => {
  const limits = objectives.map(({ limit }) => limit);
  const fromUsOf = (startUs: number): number => startUs + plan.warmUpS * 1e6;
  const isClear = (lines: readonly CallLine[], startUs: number, nowUs: number): boolean => {
    let holdUs = HOLD_LEAST_US;
    for (const line of lines) holdUs = Math.max(holdUs, line.done_us - line.intended_us);
    const [fromUs, toUs] = [fromUsOf(startUs), nowUs - Math.min(HOLD_MOST_US, 1.2 * holdUs)];
    if (toUs <= fromUs) return false;
    return judgeTallies(tallyPlainly(lines, objectives, { fromUs, toUs }), limits, plan.dispersions) !== "open";
  };
  const {
    lines,
    startUs = 0,
    cutOffUs,
    counts,
    host,
    problems,
    protocols,
  } = await playLevel(
    context,
    deployment,
    {
      ...job,
      stage,
      seed: (context.seed + number * SEED_STEP) % 2 ** 31,
      idPrefix: `${context.run}.${stage}.p${number}.c`,
      profile: constant(plan.ratePerS, plan.warmUpS + plan.playS),
    },
    plan.mayStopEarly ? isClear : undefined,
  );
  const fromUs = fromUsOf(startUs);
  const wholeUs = fromUs + plan.playS * 1e6;
  const toUs = Math.min(wholeUs, cutOffUs ?? wholeUs);
  return {
    ...tallyCalls(lines, objectives, { fromUs, toUs }),
    plan,
    playedS: Math.max(0, (toUs - fromUs) / 1e6),
    protocols,
    generator: {
      ...(counts ?? { lagMsP99: 0, dropped: 0, queued: 0, unmade: 0 }),
      cpuShare: host?.cpu_share ?? null,
      stealShare: host?.steal_share ?? null,
      notes: hostDoubts(stage, host),
    },
    failure: counts === undefined ? (problems[0]?.reason ?? "the driver did not end its schedule") : null,
  };
};
