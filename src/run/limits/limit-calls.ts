/** Sends the calls of a search for limits, and measures streams and reads on an idle deployment. */
import { randomBytes } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { openApiClient } from "../../client/api-client.ts";
import { createRunClock, wallUs } from "../../client/clock.ts";
import type { RouteName } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { median, quantile } from "../../history/statistics/statistics.ts";
import { KEY_REFUSED, serviceTimeMs } from "../../shedding/caps-found.ts";
import type { PreparedTarget } from "../../stages/prepare-target.ts";
import { type Caller, callAs, sessionsOf } from "../../workload/callers/callers.ts";
import { viewOf } from "../../workload/callers/view-of-target.ts";

export const CALLS_MOST = 8_000;
export const SECONDS_MOST = 75;
export const STREAM = "chat.control";
export const READ = "design.themes";
export const REST_MOST_MS = 15_000;

const CALM_MS = 7_000;
const CALM_MOST = 30;
const CALM_LEAST = 8;
/** Streams longer than this are measured four at once. */
const LONG_STREAM_MS = 2_000;
/** Measuring ends when the interval of the mean service time is narrower than this share to either side. */
const CALM_SHARE = 0.03;

/** If heads take more than this share of a stream, they do not show when it was admitted. */
const HELD_BACK = 0.5;

export const isAdmitted = ({ outcome }: CallLine): boolean => outcome === "200";
export const spanMs = (from: number, to: number): number => (to - from) / 1000;

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
    if (ended !== null) return false;
    if (signal.aborted) ended = "it was stopped";
    else if (calls >= CALLS_MOST) ended = `it had made ${CALLS_MOST} calls`;
    else if (performance.now() - beganMs > SECONDS_MOST * 1000) ended = `it had lasted ${SECONDS_MOST} s`;
    return ended === null;
  };
  return {
    view,
    mayGoOn,
    calls: () => calls,
    ended: () => ended,
    pause: (ms: number): Promise<void> => sleep(ms, undefined, { signal }).catch(() => undefined),
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
    close: () => Promise.all([client.close(), fresh.close()]),
  };
};

/** Measures streams and reads on an idle deployment; returns a sentence if no stream is admitted. */
export const lookAtCalm = async (sender: Sender, caller: Caller) => {
  const streams: CallLine[] = [];
  const reads: CallLine[] = [];
  const ask = async (route: RouteName): Promise<CallLine | null> => {
    let line = await sender.ask(caller, route);
    if (line?.outcome === "401" && caller.kind === "server") {
      sender.otherHeader();
      line = await sender.ask(caller, route);
    }
    for (let again = 0; again < 5 && line?.outcome === KEY_REFUSED; again += 1) {
      await sender.pause(1_000);
      line = await sender.ask(caller, route);
    }
    return line;
  };
  // The first call opens the connection.
  await ask(READ);
  const first = await ask(STREAM);
  if (first === null) return sender.ended() ?? "no call was sent";
  if (!isAdmitted(first)) return `a stream alone was answered ${first.outcome}`;
  const atOnce = spanMs(first.sent_us, first.done_us) > LONG_STREAM_MS ? 4 : 1;
  const untilMs = performance.now() + CALM_MS;
  while (sender.mayGoOn() && streams.length < CALM_MOST && (streams.length < 3 || performance.now() < untilMs)) {
    const lines = await Promise.all(Array.from({ length: atOnce }, () => ask(STREAM)));
    streams.push(...lines.filter((line) => line !== null).filter(isAdmitted));
    const read = reads.length < CALM_LEAST ? await ask(READ) : null;
    if (read !== null && isAdmitted(read)) reads.push(read);
    const service = streams.length < CALM_LEAST ? null : serviceTimeMs(streams, reads);
    if (service !== null && service.high - service.low < 2 * CALM_SHARE * service.value) break;
  }
  if (streams.length === 0) return sender.ended() ?? "no stream alone was admitted";
  const sorted = (values: number[]): number[] => values.toSorted((a, b) => a - b);
  const head = (line: CallLine): number => spanMs(line.sent_us, line.first_us ?? line.done_us);
  const headMs = quantile(sorted([...streams, ...reads].map(head)), 0.9) as number;
  const stays = sorted(streams.map((line) => spanMs(line.sent_us, line.done_us)));
  const stayMs = quantile(stays, 0.5) as number;
  return {
    ...{ streams, reads, headMs, stayMs },
    /** The 90th percentile of the stays, in milliseconds. */
    longMs: quantile(stays, 0.9) as number,
    heldBack: (median(streams.map(head)) as number) > HELD_BACK * stayMs,
    marginUs: Math.max(3_000, 1500 * headMs),
  };
};

export type Calm = Exclude<Awaited<ReturnType<typeof lookAtCalm>>, string>;
