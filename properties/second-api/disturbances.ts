/**
 * What a call may meet whatever it asks: a service that stumbles, is busy, is away or has lost its keys for a while. Nothing
 * here depends on who calls.
 */
import { type Reply, SERVER_ERROR } from "./replies.ts";
import type { ApiState } from "./state.ts";

const UNAVAILABLE: Reply = { ...SERVER_ERROR, status: 503 };

export const disturbance = (api: ApiState, path: string): Reply | null => {
  const { is, detail, flat } = api;
  if (Date.now() < api.withoutKeysUntilMs) return UNAVAILABLE;
  const busy = (is("busy") && api.calls++ % 7 === 3) || (is("strays") && api.calls++ % 40 === 17);
  if (busy) return flat("b2b_overloaded", {}, { "Retry-After": "0" });
  if (is("stumbles") && Math.random() < 0.02) return UNAVAILABLE;
  if (is("has-a-stumbling-limiter") && Math.random() < 0.02) return detail(429, "limiter_unavailable");
  if (!is("is-away-for-a-while")) return null;
  // Others begin a maintenance in the midst of the run.
  if (path === "/design/themes" && api.awayUntilMs === 0) api.awayUntilMs = performance.now() + 3_500;
  return performance.now() < api.awayUntilMs ? UNAVAILABLE : null;
};
