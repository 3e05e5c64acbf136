/**
 * The limiter service, whose counts the API replicas share: takes and refunds in batches; ledger and clock for
 * operators.
 */
import { type LedgerLine, windowOf } from "../../core/meters.ts";
import { type Clock, shiftableClock } from "../clock.ts";
import { type ControlPart, readClockOffset, type Service } from "../control-plane.ts";
import {
  bodyOf,
  type ListenAt,
  RequestError,
  route,
  type ServiceRoute,
  startHttpService,
} from "../links/http-service.ts";
import type { LimiterStore } from "./store.ts";
import { meterBody, refundsBody, takesBody } from "./wire.ts";

export const limiterControl = (limiter: {
  ledger(run: string): Iterable<LedgerLine> | AsyncIterable<LedgerLine>;
  setClockOffset(offsetMs: number): void | Promise<void>;
}): ControlPart => {
  let offsetMs = 0;
  return {
    routes: [
      {
        method: "GET",
        path: "/ledger",
        handle: ({ query }) => ({ status: 200, lines: limiter.ledger(query.get("run") ?? "") }),
      },
    ],
    deployment: () => ({ clock_offset_ms: offsetMs }),
    readDeployment: (body) => {
      const offset = readClockOffset(body);
      const before = offsetMs;
      return {
        save: async () => offset !== undefined && limiter.setClockOffset(offset),
        restore: async () => offset !== undefined && limiter.setClockOffset(before),
        apply: () => {
          offsetMs = offset ?? before;
          return { clock_offset_ms: offsetMs };
        },
      };
    },
  };
};

const FORGET_EVERY_MS = 3_600_000;

/** The month before that of `nowMs`: the oldest that is kept. */
export const oldestKeptWindow = (nowMs: number): string => {
  const [year, month] = windowOf(nowMs).split("-").map(Number) as [number, number];
  return month === 1 ? `${year - 1}-12` : `${year}-${String(month - 1).padStart(2, "0")}`;
};

const limiterRoutes = (store: LimiterStore, clock: Clock): ServiceRoute[] => [
  route("POST", "/takes", async ({ body }) => {
    const { takes } = bodyOf(takesBody, body);
    const answers = await store.take(takes, clock.instant());
    return { answers: takes.map(({ charge_id }, at) => ({ charge_id, ...answers[at] })) };
  }),
  route("POST", "/refunds", async ({ body }) => {
    const { refunds } = bodyOf(refundsBody, body);
    await store.refund(refunds, clock.instant());
    return { answers: refunds.map(({ charge_id }) => ({ charge_id, refunded: true })) };
  }),
  route("GET", "/meters", ({ query }) => {
    const [org, meter] = [query.get("org"), query.get("meter")];
    if (org === null || (meter !== "map_loads" && meter !== "design_analyses")) {
      throw new RequestError(422, "expected ?org=ID&meter=map_loads|design_analyses");
    }
    const at = clock.instant();
    return { org, meter, used: store.used(org, meter, at), window: windowOf(at.nowMs) };
  }),
  route("PUT", "/meters", ({ body }) => {
    const { org, meter, used } = bodyOf(meterBody, body);
    store.setUsed(org, meter, used, clock.instant());
    return body;
  }),
];

export const startLimiterService = async (
  { store, clock = shiftableClock() }: { store: LimiterStore; clock?: Clock },
  at: ListenAt,
): Promise<Service> => {
  const control = limiterControl({ ledger: store.ledger, setClockOffset: clock.setOffsetMs });
  const forget = (): void => store.dropBefore(oldestKeptWindow(clock.nowMs() - clock.offsetMs()));
  forget();
  const service = await startHttpService({ ...at, routes: limiterRoutes(store, clock) });
  const forgetting = setInterval(forget, FORGET_EVERY_MS);
  forgetting.unref();
  return {
    url: service.url,
    control,
    close: async () => {
      clearInterval(forgetting);
      await service.close();
      store.close();
    },
  };
};
