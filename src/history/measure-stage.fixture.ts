import type { Line } from "./line.ts";
import { type StageMeasure, stageMeasure } from "./tally.ts";

/** All lines of one stage at once. */
export const measureStage = (
  lines: Iterable<Line>,
  { stage, ...options }: Parameters<StageMeasure["end"]>[0] & { stage: string },
): ReturnType<StageMeasure["end"]> => {
  const measure = stageMeasure(stage);
  for (const line of lines) measure.see(line);
  return measure.end(options);
};
