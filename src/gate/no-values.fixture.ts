import type { BlockValues } from "./block.ts";

/** A block in which nothing was measured. */
export const NO_VALUES: BlockValues = {
  latency_ms_p50: null,
  latency_ms_p99: null,
  ttfe_ms_p50: null,
  event_gap_ms_p50: null,
  shed_share: null,
  error_share: null,
  refusal_ms_p50: null,
  goodput: null,
};
