/** Sends the calls of a search for limits, one line each, until a bound or a stop forbids another. */
import { randomBytes } from "node:crypto";
import { openApiClient } from "../../client/api-client.ts";
import type { RouteName } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import type { PreparedTarget } from "../../stages/stage-plan.ts";
import { createRunClock, pause, wallUs } from "../../supervision/waiting.ts";
import { type Caller, callAs, sessionsOf } from "../../workload/callers/callers.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";

export const CALLS_MOST = 8_000;
export const SECONDS_MOST = 75;
export const STREAM = "chat.control";
export const READ = "design.themes";

export type Room = Pick<PreparedTarget, "target" | "secrets" | "budget"> & {
  readonly signal: AbortSignal;
  onProgress(text: string): void;
};

export type Sender = Awaited<ReturnType<typeof openSender>>;

/** Sends calls and returns their lines; once anything forbids another call, none leaves and `ended` says why. */
export const openSender = async ({ target, secrets, budget, signal }: Room) => {
  const view = viewOf(target);
  const clock = createRunClock(wallUs());
  const idPrefix = `limits.${randomBytes(4).toString("hex")}`;
  const as = { stage: "find-limits", driver: "doctor" };
  const common = { secrets, view, clock, budget, idPrefix, ...as, onLine: () => undefined };
  const client = await openApiClient({ target, ...common });
  // A load balancer distributes connections, so each call by `fresh` opens its own, where the protocol lets it.
  const fresh = target.transport?.protocol === "h2" ? client : await openApiClient({ target, ...common });
  const beganMs = performance.now();
  let calls = 0;
  let ended: string | null = null;
  let via: "authorization" | "x-api-key" = "authorization";
  const mayGoOn = (): boolean => {
    if (signal.aborted) ended ??= "it was stopped";
    if (calls >= CALLS_MOST) ended ??= `it had made ${CALLS_MOST} calls`;
    if (performance.now() - beganMs > SECONDS_MOST * 1000) ended ??= `it had lasted ${SECONDS_MOST} s`;
    return ended === null;
  };
  return {
    view,
    mayGoOn,
    calls: () => calls,
    ended: () => ended,
    pause: (ms: number): Promise<void> => pause(ms, signal),
    /** Switches to `x-api-key`, for a deployment that does not read `authorization`. */
    otherHeader: () => {
      via = "x-api-key";
    },
    openSession: async (caller: Caller): Promise<void> => {
      for (const { of, product } of sessionsOf([caller], [STREAM, READ])) {
        for (const one of new Set([client, fresh])) await one.book.fetch({ as: "session", of, product });
      }
    },
    /** Returns the call's line; `null` if the call was not sent. */
    ask: async (caller: Caller, route: RouteName, by = client): Promise<CallLine | null> => {
      if (!mayGoOn()) return null;
      const n = calls;
      calls += 1;
      try {
        const asked = callAs(view, n, caller, { route, via });
        const step = by === client ? asked : { ...asked, headers: { ...asked.headers, connection: "close" } };
        const context = { id: `${idPrefix}.${n}`, ...as, intendedUs: clock.nowUs() };
        return (await by.send(step, context)).line;
      } catch (error) {
        ended ??= (error as Error).message;
        return null;
      }
    },
    fresh,
    [Symbol.asyncDispose]: async (): Promise<void> => void (await Promise.all([client.close(), fresh.close()])),
  };
};
