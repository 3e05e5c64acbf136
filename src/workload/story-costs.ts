/** What a story spends of a deployment (`budget` of the target file), looked up in its own plan before anything is sent. */
import { routeOf } from "../contract/routes.ts";
import type { TargetView } from "./callers/target-view.ts";
import type { Step } from "./step.ts";

/** Expected numbers, were every call admitted. */
export type Costs = {
  /** Calls with their retries, and the exchanges for sessions beforehand. */
  readonly requests: number;
  readonly map_loads: number;
  readonly analyses: number;
  readonly streams: number;
  /** `null` where nobody knows how long a stream lasts: `limits.service_ms` is not stated. */
  readonly stream_seconds: number | null;
};

const LOOKED_AT = 2000;
const SEED = 1;

/** By the first calls of the plan, of which the others are like. */
export const costsOfPlan = (
  plan: (seed: number, i: number, view: TargetView) => Step[],
  sessions: number,
  view: TargetView,
  calls: number,
): Costs => {
  const seen = { requests: 0, map_loads: 0, analyses: 0, streams: 0 };
  const looked = Math.min(LOOKED_AT, Math.ceil(calls));
  for (let i = 0; i < looked; i++) {
    for (const { route, meter, retry } of plan(SEED, i, view)) {
      seen.requests += 1 + (retry?.times ?? 0);
      if (meter === "map_loads") seen.map_loads += 1;
      if (meter === "design_analyses") seen.analyses += 1;
      if (route !== "-" && routeOf(route).stream !== undefined) seen.streams += 1;
    }
  }
  const factor = looked === 0 ? 0 : calls / looked;
  const streams = seen.streams * factor;
  const { service_ms } = view.limits;
  return {
    requests: seen.requests * factor + sessions,
    map_loads: seen.map_loads * factor,
    analyses: seen.analyses * factor,
    streams,
    stream_seconds: streams === 0 ? 0 : service_ms === undefined ? null : (streams * service_ms) / 1000,
  };
};
