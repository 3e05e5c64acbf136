/**
 * Scenarios whose point is what happens to the service meanwhile: it gets slower, loses a replica, is deployed, starts cold.
 * Each really happens to the embedded deployment; to anybody else's by the commands of its target file.
 */

import type { ServiceChange } from "../../faults/beside-load/disturbance.ts";
import type { LoadStage } from "../../stages/stage-plan.ts";
import { EVERYWHERE, loadStage, STREAMS } from "../../stages/stage-plan.ts";

const HOLD_MS = 4_000;
/** Ends by itself when it has recovered; no stage is this long. */
const AT_MOST_S = 60;
/** The ramp of a cold start is to be well under way by then. */
const RAMP_S = 40;
const REPLICAS = 2;
/** Where nobody is meant to be refused, those who judge refusals have nothing to see. */
const CALM = ["first-failing-check-decides", "counts-agree"];

const change = (name: string, fault: ServiceChange["fault"], holdMs: number): ServiceChange => ({
  kind: "service-change",
  name,
  link: "service",
  fault,
  holdMs,
});

/** Five times the service time at a constant rate: nothing is broken, and calls beyond the cap are shed. */
export const brownout = (): LoadStage =>
  loadStage({
    name: "brownout",
    durationS: AT_MOST_S,
    disturbance: change("brownout", "slowed", HOLD_MS),
    judges: [...EVERYWHERE, ...STREAMS, "sheds-only-over-the-cap"],
    reaches: ["200", "429 b2b_overloaded"],
  });

/** One of two replicas is killed: what it had begun is lost, and nothing else. */
export const replicaLost = (): LoadStage =>
  loadStage({
    name: "replica-lost",
    replicas: REPLICAS,
    durationS: AT_MOST_S,
    disturbance: {
      kind: "process-fault",
      name: "replica-lost",
      link: "api",
      fault: "killed",
      holdMs: HOLD_MS,
      replica: REPLICAS - 1,
    },
    judges: [...CALM, "recovers", "slots-are-given-back"],
    reaches: ["200"],
  });

/** Two replicas are replaced in order: no stream is cut. */
export const rollingDeploy = (): LoadStage =>
  loadStage({
    name: "rolling-deploy",
    replicas: REPLICAS,
    durationS: AT_MOST_S,
    disturbance: change("rolling-deploy", "rolling-deploy", 0),
    judges: [...CALM, ...STREAMS],
    reaches: ["200"],
  });

/** The only replica comes back with nothing in its caches while the load grows. */
export const coldStart = (): LoadStage =>
  loadStage({
    name: "cold-start-under-load",
    durationS: RAMP_S,
    disturbance: {
      kind: "process-fault",
      name: "cold-start-under-load",
      link: "api",
      fault: "restarted",
      holdMs: 500,
    },
    judges: [...CALM, "recovers", "slots-are-given-back"],
    reaches: ["200"],
  });

export const DISTURBED: readonly LoadStage[] = [brownout(), replicaLost(), rollingDeploy(), coldStart()];
