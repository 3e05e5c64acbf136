/**
 * Judges of shedding hold a stage against caps and replicas as the target file states them. When either changes midway,
 * they stop there: what was legal before it is judged, what comes after is not.
 */
import type { Line } from "../../history/line.ts";

/** `service`: what an operator changes in order, e.g. how long a call takes. */
const DEPENDENCIES = new Set(["limiter", "keys", "edge", "service"]);

/** The number of replicas changes, or a replica itself is broken. */
export const changesReplicas = (line: Line): boolean => {
  if (line.type === "mark") return line.name === "replicas-changed";
  return line.type === "fault" && (!DEPENDENCIES.has(line.link) || line.fault === "rolling-deploy");
};

export const changesCaps = (line: Line): boolean => line.type === "mark" && line.name === "caps-changed";
