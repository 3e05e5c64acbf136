/** What a target file lets a run spend: its `budget`, `permits.load_max_rps` and `stop_when` (interface.md section 2). */
import type { Lease } from "./lease.ts";

export type StatedBounds = {
  readonly budget?: {
    readonly requests?: number;
    readonly map_loads?: number;
    readonly analyses?: number;
    readonly stream_seconds?: number;
  };
  readonly permits?: { readonly load_max_rps?: number };
  readonly stop_when?: { readonly error_rate?: number };
};

/** Only what the file states is bounded. */
export const leaseOfTarget = ({ budget = {}, permits = {}, stop_when = {} }: StatedBounds): Lease => ({
  ...(budget.requests === undefined ? {} : { requests: budget.requests }),
  ...(budget.map_loads === undefined ? {} : { map_loads: budget.map_loads }),
  ...(budget.analyses === undefined ? {} : { analyses: budget.analyses }),
  ...(budget.stream_seconds === undefined ? {} : { stream_seconds: budget.stream_seconds }),
  ...(permits.load_max_rps === undefined ? {} : { maxPerS: permits.load_max_rps }),
  ...(stop_when.error_rate === undefined ? {} : { stopErrorRate: stop_when.error_rate }),
});

/** In place of a secret where a scenario is only archived and sends nothing. */
export const PLACEHOLDER = "floodgate-archived-without-secrets";
