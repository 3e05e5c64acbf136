/** What generator and host did in a stage, for tests: a calm machine, and one on which calls left late. */
import type { StageHost } from "../../history/stage-host.ts";

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

export const LATE: StageHost = { ...CALM, lag_ms: [[0.99, 400]] };
