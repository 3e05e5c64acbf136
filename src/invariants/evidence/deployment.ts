/** What is known about the deployment: whose it is, who calls it, when its capacity changes. */
import type { Line } from "../../history/line.ts";
import type { StageFacts } from "../../history/stage-facts.ts";
import { type Found, skipped } from "../invariant.ts";

export const isReference = (facts: Pick<StageFacts, "reference">): boolean => facts.reference === true;

/** For judges that need every call. Skipped, because a longer run would not help. `why`: what another caller may have done. */
export const skippedWhenShared = (why: string): Found =>
  skipped(`"exclusive": true in the target file, which does not state that nobody else calls it; ${why}`);

/** No valid credential, or the target file does not name its role's organization: it may be any. */
export const isUnnamed = (org: string): boolean => org === "-" || org.startsWith("role:");

/** `service`: an operator's changes, such as the service time. */
const DEPENDENCIES = new Set(["limiter", "keys", "edge", "service"]);

/** The number of replicas changes, or a replica is broken. */
export const changesReplicas = (line: Line): boolean => {
  if (line.type === "mark") return line.name === "replicas-changed";
  return line.type === "fault" && (!DEPENDENCIES.has(line.link) || line.fault === "rolling-deploy");
};

export const changesCaps = (line: Line): boolean => line.type === "mark" && line.name === "caps-changed";
