/**
 * What a call may meet whatever it asks: a service that stumbles, is busy, is away or has lost its keys for a while. Nothing
 * here depends on who calls.
 */
import { type Reply, SERVER_ERROR } from "./replies.ts";
import type { TwinState } from "./state.ts";

const UNAVAILABLE: Reply = { ...SERVER_ERROR, status: 503 };

export const disturbance = (twin: TwinState, path: string): Reply | null => {
  const { is, detail, flat } = twin;
  if (Date.now() < twin.withoutKeysUntilMs) return UNAVAILABLE;
  const busy = (is("busy") && twin.calls++ % 7 === 3) || (is("strays") && twin.calls++ % 40 === 17);
  if (busy) return flat("b2b_overloaded", {}, { "Retry-After": "0" });
  if (is("stumbles") && Math.random() < 0.02) return UNAVAILABLE;
  if (is("has-a-stumbling-limiter") && Math.random() < 0.02) return detail(429, "limiter_unavailable");
  if (!is("is-away-for-a-while")) return null;
  // Others begin a maintenance in the midst of the run.
  if (path === "/design/themes" && twin.awayUntilMs === 0) twin.awayUntilMs = performance.now() + 3_500;
  return performance.now() < twin.awayUntilMs ? UNAVAILABLE : null;
};
