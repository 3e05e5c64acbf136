/** Plays the stages of a suite on one deployment, one after the other, until they end or nothing more may be sent. */

import type { Deployment } from "../deployments/deployment.ts";
import { reachedAt, withReplicas } from "../deployments/embedded.ts";
import { type RunContext, stoppedBy } from "../deployments/run-context.ts";
import { stageTenants } from "../deployments/tenants.ts";
import { consequencesOf } from "../faults/disturbance.ts";
import { moveClock } from "../faults/injectors/operator.ts";
import type { CallLine, Line } from "../history/line.ts";
import { isUndecided, secondOf } from "../history/played-again.ts";
import { claimOf } from "../history/run-document.ts";
import type { StageOutcome } from "../history/stage-facts.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import { createPooledRefusals } from "../invariants/refusal-times.ts";
import { createIsolation } from "../shedding/isolation.ts";
import { kneeOfRamp, rateFoundOf } from "../shedding/knee-of-ramp.ts";
import { STORIES } from "../workload/catalogue.ts";
import { RAMPS } from "../workload/story.ts";
import { playLoadStage } from "./load-stage.ts";
import { unplayedStage, watchGrowth } from "./stage-claims.ts";
import type { LoadStage, StagePlan } from "./stage-plan.ts";
import { driverOf, EVERYWHERE, plannedFor, STREAMS, stageMissing } from "./stage-plan.ts";
import { playVerifyStage } from "./verify-stage.ts";

/** The deployment with a stage's tenants, replicas and edge proxy; changes only one that this run started. */
const deploymentFor = async (plan: LoadStage, given: Deployment, atEnd: AsyncDisposableStack): Promise<Deployment> => {
  const { own, faults } = given;
  if (own === undefined) return given;
  const { breaksEdge, movesClock } = consequencesOf(plan.disturbance);
  if (movesClock) atEnd.defer(() => moveClock(given.target, 0));
  const target = await stageTenants(plan.tenants, given.target);
  const { replicas = 1 } = plan;
  if (replicas > 1) return withReplicas({ ...given, own, target }, replicas, atEnd);
  const edge = breaksEdge ? faults?.links.edge : undefined;
  const atEdge = edge === undefined ? {} : reachedAt(`http://${edge.listen}`, target);
  return { ...given, target: { ...target, ...atEdge } };
};

const isOfRamp = (line: Line): line is CallLine =>
  line.type === "call" && line.driver === "open-loop" && line.route !== "sdk.sessions";

const findCapacity = async (context: RunContext, deployment: Deployment, plan: LoadStage): Promise<void> => {
  const kind = STORIES.get(plan.story)?.needsCapacity ?? null;
  if (kind === null || deployment.found[kind] !== undefined || plannedFor(plan, deployment) !== null) return;
  if (context.signal.aborted || stoppedBy(context) !== null) return;
  if (stageMissing(plan, deployment).length > 0) return;
  const story = RAMPS[kind];
  const ramp: LoadStage = {
    ...{ kind: "load", name: story, story, driver: "open-loop", arrivals: "uniform" },
    judges: [...EVERYWHERE, ...(kind === "chat" ? STREAMS : [])],
  };
  context.events.step(`a ramp for the stages to come, because \`limits\` state no rate: ${story}`);
  const planned = plannedFor(ramp, deployment);
  if (planned === null) return;
  const calls: CallLine[] = [];
  const onLine = (line: Line): void => void (isOfRamp(line) && calls.push(line));
  const outcome = await playLoadStage(context, deployment, ramp, { onLine });
  await context.addStage(outcome);
  calls.sort((one, other) => one.sent_us - other.sent_us);
  if (calls.length === 0) return;
  const knee = kneeOfRamp(calls, planned.profile);
  const said = knee.found
    ? `${knee.capacityPerS.toFixed(1)} calls/s (${knee.low.toFixed(1)} to ${knee.high.toFixed(1)}), ended by ${knee.by}`
    : `no limit was met: ${knee.reason}; at least ${knee.atLeastPerS.toFixed(1)} calls/s`;
  context.events.result(`  ${said}`);
  const rate = rateFoundOf(knee);
  if (rate !== null) deployment.found[kind] = rate;
  const claim = claimOf({
    ...{ id: `knee/${story}`, stage: story, level: "info", verdict: knee.found ? "pass" : "skipped" },
    ...{ reason: said, expected: "a limit inside permits.load_max_rps", replay: context.replay },
  });
  context.addClaims([claim]);
};

/** The most stages played again; a machine that disturbs more of them would disturb the second try too. */
const PLAYED_AGAIN_MAX = 5;

/** Reports whether a stage cannot be repeated: it uses up organizations' last units, or begins a new month. */
const happensOnce = ({ tenants, story, disturbance }: LoadStage): boolean =>
  tenants === "last-units" || story === "last-units" || consequencesOf(disturbance).movesClock;

/**
 * The stage to play again: an experiment that a disturbed machine left undecided; `null` if it is decided or the
 * machine was quiet. A failure stays a failure (history/played-again.ts).
 */
export const stageAgain = (plan: StagePlan, outcome: StageOutcome): LoadStage | null => {
  if (plan.kind !== "load" || plan.disturbance === undefined || consequencesOf(plan.disturbance).isDrawn) return null;
  const { claims, facts, isLeftBroken } = outcome;
  const isFailed = claims.some(({ level, verdict }) => level === "must" && verdict === "fail");
  if (happensOnce(plan) || !claims.some(isUndecided) || isFailed || isLeftBroken) return null;
  const wasDisturbed = facts.host !== undefined && hostNotesOf(facts.host).length > 0;
  return wasDisturbed ? { ...plan, name: secondOf(plan.name) } : null;
};

const playStage = async (context: RunContext, deployment: Deployment, plan: StagePlan): Promise<StageOutcome> => {
  if (plan.kind === "verify") return playVerifyStage(context, deployment, plan);
  await findCapacity(context, deployment, plan);
  await using atEnd = new AsyncDisposableStack();
  return await playLoadStage(context, await deploymentFor(plan, deployment, atEnd), plan);
};

const isWatched = (plan: StagePlan): boolean => plan.kind === "load" && plan.growth === true;

export const playStages = async (
  context: RunContext,
  deployment: Deployment,
  plans: readonly StagePlan[],
  /** Called after each stage with the stages still to come; `true` ends the play. */
  isEnough: (outcome: StageOutcome, left: readonly StagePlan[]) => boolean = () => false,
): Promise<void> => {
  const { events, replay } = context;
  const pooled = createPooledRefusals();
  const isolation = createIsolation();
  const growth = plans.some(isWatched) ? watchGrowth(deployment) : null;
  const toPlayAgain: LoadStage[] = [];
  const isOver = (): boolean => context.signal.aborted || stoppedBy(context) !== null;
  const playOne = async (plan: StagePlan, which: string): Promise<StageOutcome> => {
    events.step(`${which}: ${plan.name} (${driverOf(plan)})`);
    if (isWatched(plan)) growth?.look();
    const { disturbance, isolation: part } = plan.kind === "load" ? plan : {};
    const isReadBack = disturbance !== undefined || part !== undefined;
    const recording = isReadBack ? await context.record(plan.name) : null;
    const outcome = await playStage(context, deployment, plan);
    if (recording !== null && disturbance !== undefined) pooled.see(await recording.lines(), outcome.facts.host);
    if (recording !== null && part !== undefined) isolation.see(part, await recording.lines(), outcome.facts);
    await growth?.rest();
    await context.addStage(outcome);
    return outcome;
  };
  /** Skips the remaining stages: a deployment that could not be healed is neither broken further nor judged. */
  const leaveAlone = async (brokenIn: string, left: readonly StagePlan[]): Promise<void> => {
    const names = left.map(({ name }) => name).join(", ");
    events.result(`  ${brokenIn} could not be healed: ${names === "" ? "no stage was left" : `not played: ${names}`}`);
    const reason = `not played: what was done to the deployment in ${brokenIn} could not be healed, and nothing more is broken`;
    const why = { verdict: "inconclusive", reason, expected: "a deployment that is whole", replay } as const;
    for (const plan of left) await context.addStage(unplayedStage(plan, deployment, why));
  };
  /** Plays all stages. Returns whether they can be judged together, because play did not end early. */
  const playAll = async (): Promise<boolean> => {
    for (const [at, plan] of plans.entries()) {
      if (isOver()) return false;
      const outcome = await playOne(plan, `stage ${at + 1} of ${plans.length}`);
      if (outcome.isLeftBroken) {
        await leaveAlone(plan.name, plans.slice(at + 1));
        return true;
      }
      const again = isOver() || toPlayAgain.length === PLAYED_AGAIN_MAX ? null : stageAgain(plan, outcome);
      if (again !== null) toPlayAgain.push(again);
      if (isEnough(outcome, [...plans.slice(at + 1), ...toPlayAgain])) return false;
    }
    // Stages are played again at the end, because a disturbance of the machine may last a minute.
    for (const [at, plan] of toPlayAgain.entries()) {
      if (isOver()) break;
      const outcome = await playOne(plan, `once more, ${at + 1} of ${toPlayAgain.length}`);
      if (outcome.isLeftBroken || isEnough(outcome, toPlayAgain.slice(at + 1))) break;
    }
    return true;
  };
  try {
    if (!(await playAll())) return;
    context.addClaims(pooled.claims(deployment.target.limits, replay));
    const kept = isolation.judged(replay);
    context.addClaims(kept.claims);
    context.addMeasurements(kept.measurements);
  } finally {
    await growth?.rest();
    const grown = growth?.judged(replay);
    context.addClaims(grown?.claims ?? []);
    context.addMeasurements(grown?.measurements ?? []);
  }
};
