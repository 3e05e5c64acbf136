/**
 * Judges of shedding hold a stage against caps and replicas as the target file states them. When either changes midway,
 * they stop there: what was legal before it is judged, what comes after is not.
 */
import type { Line } from "../history/line.ts";

const DEPENDENCIES = new Set(["limiter", "keys", "edge"]);

/** The number of replicas changes, or a replica itself is broken. */
export const changesReplicas = (line: Line): boolean =>
  (line.type === "mark" && line.name === "replicas-changed") || (line.type === "fault" && !DEPENDENCIES.has(line.link));

export const changesCaps = (line: Line): boolean => line.type === "mark" && line.name === "caps-changed";
