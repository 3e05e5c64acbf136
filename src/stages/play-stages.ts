/** Plays the stages of a suite on one deployment, one after the other, until they end or nothing more may be sent. */

import type { Deployment } from "../deployments/deployment.ts";
import { type RunContext, stoppedBy } from "../deployments/run-context.ts";
import { capabilitiesOf } from "../faults/capabilities.ts";
import { consequencesOf } from "../faults/disturbance.ts";
import type { CallLine, Line } from "../history/line.ts";
import { isUndecided, secondOf } from "../history/played-again.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageHost } from "../history/stage-host.ts";
import type { StageOutcome } from "../history/stage-outcome.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import { createPooledRefusals, type PooledRefusals } from "../invariants/refusal-times.ts";
import { createIsolation, type Isolation } from "../shedding/isolation.ts";
import { kneeOfRamp, rateFoundOf } from "../shedding/knee-of-ramp.ts";
import { STORIES } from "../workload/catalogue.ts";
import { RAMPS } from "../workload/story.ts";
import { deploymentFor } from "./deployment-for-stage.ts";
import { type GrowthWatch, watchGrowth } from "./growth-watch.ts";
import { playLoadStage } from "./load-stage.ts";
import { plannedFor, stageMissing } from "./planned-load.ts";
import { stageOnBroken } from "./reached-claim.ts";
import { driverOf, EVERYWHERE, type LoadStage, STREAMS, type StagePlan } from "./stage-plan.ts";
import { playVerifyStage } from "./verify-stage.ts";

const isOfRamp = (line: Line): line is CallLine =>
  line.type === "call" && line.driver === "open-loop" && line.route !== "sdk.sessions";

const findCapacity = async (context: RunContext, deployment: Deployment, plan: LoadStage): Promise<void> => {
  const kind = STORIES.get(plan.story)?.needsCapacity ?? null;
  if (kind === null || deployment.found[kind] !== undefined || plannedFor(plan, deployment) !== null) return;
  if (context.signal.aborted || stoppedBy(context) !== null) return;
  if (stageMissing(plan, capabilitiesOf(deployment)).length > 0) return;
  const story = RAMPS[kind];
  const ramp: LoadStage = {
    kind: "load",
    driver: "open-loop",
    name: story,
    story,
    arrivals: "uniform",
    judges: [...EVERYWHERE, ...(kind === "chat" ? STREAMS : [])],
  };
  context.events.step(`a ramp for the stages to come, because \`limits\` state no rate: ${story}`);
  const planned = plannedFor(ramp, deployment);
  if (planned === null) return;
  const calls: CallLine[] = [];
  const onLine = (line: Line): void => {
    if (isOfRamp(line)) calls.push(line);
  };
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
  const claim: Claim = {
    id: `knee/${story}`,
    stage: story,
    level: "info",
    verdict: knee.found ? "pass" : "skipped",
    reason: said,
    expected: "a limit inside permits.load_max_rps",
    got: said,
    spec: [],
    evidence: [],
    replay: context.replay,
  };
  context.addClaims([claim]);
};

/** On a machine that disturbs more than these, the same again would say no more. */
const PLAYED_AGAIN_MAX = 5;

const isBroken = ({ level, verdict }: Claim): boolean => level === "must" && verdict === "fail";

const wasDisturbed = (host: StageHost | undefined): boolean => host !== undefined && hostNotesOf(host).length > 0;

/** It uses up its subject: last units of organizations, or the beginning of a month. */
const happensOnce = ({ tenants, story, disturbance }: LoadStage): boolean =>
  tenants === "last-units" || story === "last-units" || consequencesOf(disturbance).movesClock;

/**
 * An experiment that a disturbed machine left undecided, to play once more; `null` where it is decided or the machine was
 * quiet. A failure stays a failure (history/played-again.ts).
 */
export const stageAgain = (plan: StagePlan, outcome: StageOutcome): LoadStage | null => {
  if (plan.kind !== "load" || plan.disturbance === undefined || consequencesOf(plan.disturbance).isDrawn) return null;
  const { claims, facts, isLeftBroken } = outcome;
  if (happensOnce(plan) || !claims.some(isUndecided) || claims.some(isBroken) || isLeftBroken) return null;
  return wasDisturbed(facts.host) ? { ...plan, name: secondOf(plan.name) } : null;
};

const playOn = async (context: RunContext, deployment: Deployment, plan: LoadStage): Promise<StageOutcome> => {
  const { deployment: asNeeded, close } = await deploymentFor(plan, deployment);
  try {
    return await playLoadStage(context, asNeeded, plan);
  } finally {
    await close();
  }
};

const playStage = async (context: RunContext, deployment: Deployment, plan: StagePlan): Promise<StageOutcome> => {
  if (plan.kind === "verify") return playVerifyStage(context, deployment, plan);
  await findCapacity(context, deployment, plan);
  return playOn(context, deployment, plan);
};

const isWatched = (plan: StagePlan): boolean => plan.kind === "load" && plan.growth === true;

export const playStages = async (
  context: RunContext,
  deployment: Deployment,
  plans: readonly StagePlan[],
  /** Asked after each stage with what is still to come: whether to leave it at that. */
  isEnough: (outcome: StageOutcome, left: readonly StagePlan[]) => boolean = () => false,
): Promise<void> => {
  const watch = plans.some(isWatched) ? watchGrowth(deployment) : null;
  try {
    await playAll(context, deployment, plans, isEnough, watch);
  } finally {
    await watch?.rest();
    const grown = watch?.judged(context.replay);
    context.addClaims(grown?.claims ?? []);
    context.addMeasurements(grown?.measurements ?? []);
  }
};

type Beside = { pooled: PooledRefusals; isolation: Isolation; watch: GrowthWatch | null };

const playWatched = async (
  context: RunContext,
  deployment: Deployment,
  plan: StagePlan,
  { pooled, isolation, watch }: Beside,
): Promise<StageOutcome> => {
  if (isWatched(plan)) watch?.look();
  const isDisturbed = plan.kind === "load" && plan.disturbance !== undefined;
  const part = plan.kind === "load" ? plan.isolation : undefined;
  const recording = isDisturbed || part !== undefined ? await context.record(plan.name) : null;
  const outcome = await playStage(context, deployment, plan);
  if (recording !== null && isDisturbed) pooled.see(await recording.lines(), outcome.facts.host);
  if (recording !== null && part !== undefined) isolation.see(part, await recording.lines(), outcome.facts);
  await watch?.rest();
  return outcome;
};

const playAll = async (
  context: RunContext,
  deployment: Deployment,
  plans: readonly StagePlan[],
  isEnough: (outcome: StageOutcome, left: readonly StagePlan[]) => boolean,
  watch: GrowthWatch | null,
): Promise<void> => {
  const pooled = createPooledRefusals();
  const isolation = createIsolation();
  const toPlayAgain: LoadStage[] = [];
  let isLeftBroken = false;
  const isOver = (): boolean => context.signal.aborted || stoppedBy(context) !== null;
  const playOne = async (plan: StagePlan, which: string): Promise<StageOutcome> => {
    context.events.step(`${which}: ${plan.name} (${driverOf(plan)})`);
    const outcome = await playWatched(context, deployment, plan, { pooled, isolation, watch });
    await context.addStage(outcome);
    return outcome;
  };
  /** A deployment that could not be healed is not broken further, and not judged. */
  const leaveAlone = async (brokenIn: string, left: readonly StagePlan[]): Promise<void> => {
    const names = left.map(({ name }) => name).join(", ");
    context.events.result(
      `  ${brokenIn} could not be healed: ${names === "" ? "no stage was left" : `not played: ${names}`}`,
    );
    for (const plan of left) await context.addStage(stageOnBroken(plan, deployment, brokenIn, context.replay));
  };
  for (const [at, plan] of plans.entries()) {
    if (isOver()) return;
    const outcome = await playOne(plan, `stage ${at + 1} of ${plans.length}`);
    if (outcome.isLeftBroken) {
      isLeftBroken = true;
      await leaveAlone(plan.name, plans.slice(at + 1));
      break;
    }
    const again = isOver() || toPlayAgain.length === PLAYED_AGAIN_MAX ? null : stageAgain(plan, outcome);
    if (again !== null) toPlayAgain.push(again);
    if (isEnough(outcome, [...plans.slice(at + 1), ...toPlayAgain])) return;
  }
  // At the end, because a disturbance of the machine may last a minute.
  for (const [at, plan] of (isLeftBroken ? [] : toPlayAgain).entries()) {
    if (isOver()) break;
    const outcome = await playOne(plan, `once more, ${at + 1} of ${toPlayAgain.length}`);
    if (outcome.isLeftBroken || isEnough(outcome, toPlayAgain.slice(at + 1))) break;
  }
  context.addClaims(pooled.claims(deployment.target.limits, context.replay));
  const kept = isolation.judged(context.replay);
  context.addClaims(kept.claims);
  context.addMeasurements(kept.measurements);
};
