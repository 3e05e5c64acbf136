/** The clock of a deployment, as its operator moves it: all parts, or what is charged and what is allowed would be of two months. */
import { controlSend } from "../client/control-planes.ts";
import type { Target } from "../target/target.ts";

const DAY_MS = 86_400_000;

/**
 * The offset of a clock that comes to a month's edge in `aheadMs` from now: to the next one, unless the calendar itself may
 * pass it during the stage.
 */
export const offsetBeforeMonthMs = (nowMs: number, aheadMs: number): number => {
  const now = new Date(nowMs);
  const edge = (ahead: number): number => Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + ahead, 1);
  const at = edge(1) - nowMs > DAY_MS ? edge(1) : edge(2);
  return at - nowMs - aheadMs;
};

/** `offsetMs` 0 puts it right. Rejects where a part did not confirm it. */
export const moveClock = async ({ control }: Pick<Target, "control">, offsetMs: number): Promise<void> => {
  // What is charged first: until the API follows, it only asks.
  const parts = [control?.limiter, control?.keys, ...(control?.api ?? [])];
  for (const part of new Set(parts)) {
    if (part !== undefined && part !== null) {
      await controlSend("PATCH", `${part}/deployment`, { clock_offset_ms: offsetMs });
    }
  }
};
