/** What is known of the deployment: whose it is, who else calls it, and when its capacity changes. */
import type { Line } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { type Found, skipped } from "../invariant.ts";

export const isReference = (facts: Pick<StageFacts, "reference">): boolean => facts.reference === true;

/**
 * For judges that need all calls in flight, or all charges. Skipped and not inconclusive, because a longer run would
 * not help. `why`: what another caller may have done, as half a sentence.
 */
export const skippedWhenShared = (why: string): Found =>
  skipped(`"exclusive": true in the target file, which does not state that nobody else calls it; ${why}`);

/**
 * The call has no valid credential, or the target file does not name the organization of its role
 * (workload/callers/target-view.ts): it may belong to any organization.
 */
export const isUnnamed = (org: string): boolean => org === "-" || org.startsWith("role:");

/** Judges of shedding stop when the stated caps or replicas change. */
/** `service`: what an operator changes in order, e.g. how long a call takes. */
const DEPENDENCIES = new Set(["limiter", "keys", "edge", "service"]);

/** The number of replicas changes, or a replica itself is broken. */
export const changesReplicas = (line: Line): boolean => {
  if (line.type === "mark") return line.name === "replicas-changed";
  return line.type === "fault" && (!DEPENDENCIES.has(line.link) || line.fault === "rolling-deploy");
};

export const changesCaps = (line: Line): boolean => line.type === "mark" && line.name === "caps-changed";
