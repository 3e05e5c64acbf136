/**
 * Scenarios whose point is what happens to the service meanwhile: it gets slower, loses a replica, is deployed, starts cold.
 * Each really happens to the embedded deployment; to anybody else's by the commands of its target file.
 */

import type { Faults } from "../../faults/disturbance.ts";
import type { Fault } from "../../faults/fault.ts";
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

const one = (name: string, holdMs: number, fault: Fault): Faults => ({ kind: "faults", name, faults: [fault], holdMs });

/** Five times the service time at a constant rate: nothing is broken, and calls beyond the cap are shed. */
export const brownout = (): LoadStage =>
  loadStage({
    name: "brownout",
    durationS: AT_MOST_S,
    disturbance: one("brownout", HOLD_MS, { by: "operator", component: "service", fault: "slowed" }),
    judges: [...EVERYWHERE, ...STREAMS, "sheds-only-over-the-cap"],
    reaches: ["200", "429 b2b_overloaded"],
  });

/** One of two replicas is killed: what it had begun is lost, and nothing else. */
export const replicaLost = (): LoadStage =>
  loadStage({
    name: "replica-lost",
    replicas: REPLICAS,
    durationS: AT_MOST_S,
    disturbance: one("replica-lost", HOLD_MS, {
      by: "process",
      component: "api",
      fault: "killed",
      replica: REPLICAS - 1,
    }),
    judges: [...CALM, "recovers", "slots-are-given-back"],
    reaches: ["200"],
  });

/** Two replicas are replaced in order: no stream is cut. */
export const rollingDeploy = (): LoadStage =>
  loadStage({
    name: "rolling-deploy",
    replicas: REPLICAS,
    durationS: AT_MOST_S,
    disturbance: one("rolling-deploy", 0, { by: "operator", component: "service", fault: "rolling-deploy" }),
    judges: [...CALM, ...STREAMS],
    reaches: ["200"],
  });

/** The only replica comes back with nothing in its caches while the load grows. */
export const coldStart = (): LoadStage =>
  loadStage({
    name: "cold-start-under-load",
    durationS: RAMP_S,
    disturbance: one("cold-start-under-load", 500, { by: "process", component: "api", fault: "restarted" }),
    judges: [...CALM, "recovers", "slots-are-given-back"],
    reaches: ["200"],
  });

export const DISTURBED: readonly LoadStage[] = [brownout(), replicaLost(), rollingDeploy(), coldStart()];
