/** What generator and host did in a stage, for tests. */
import type { StageHost } from "./run-document.ts";

export const CALM: StageHost = {
  host: null,
  cores: 2,
  target_cores: null,
  other_cores: null,
  calls: 100,
  lag_ms: [[0.99, 1]],
  rate_error: 0,
  generator: [],
  calibration: [],
};

/** One call in a hundred left so late, or later. */
export const lateBy = (lagMs: number): StageHost => ({ ...CALM, lag_ms: [[0.99, lagMs]] });

export const LATE = lateBy(400);
