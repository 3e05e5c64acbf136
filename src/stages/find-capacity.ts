/**
 * Finds the rate that a stage needs by a short ramp inside `permits.load_max_rps`, where the target file states none. The
 * rate is kept with the deployment.
 */

import { kneeOfRamp, rateFoundOf } from "../capacity/knee-of-ramp.ts";
import type { Deployment } from "../deployments/deployment.ts";
import { type RunContext, stoppedBy } from "../deployments/run-context.ts";
import { capabilitiesOf } from "../faults/capabilities.ts";
import type { CallLine, Line } from "../history/line.ts";
import type { Claim } from "../history/run-document.ts";
import { STORIES } from "../workload/catalogue.ts";
import { RAMPS } from "../workload/story.ts";
import { playLoadStage } from "./load-stage.ts";
import { plannedFor, stageMissing } from "./planned-load.ts";
import { EVERYWHERE, type LoadStage, STREAMS } from "./stage-plan.ts";

const isOfRamp = (line: Line): line is CallLine =>
  line.type === "call" && line.driver === "open-loop" && line.route !== "sdk.sessions";

export const findCapacity = async (context: RunContext, deployment: Deployment, plan: LoadStage): Promise<void> => {
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
  const outcome = await playLoadStage(context, deployment, ramp, (line) => {
    if (isOfRamp(line)) calls.push(line);
  });
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
