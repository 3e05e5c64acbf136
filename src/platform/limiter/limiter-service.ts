/**
 * The limiter service: one process whose counts the API replicas share (interface.md section 4). Takes and refunds come in
 * batches; the ledger and the clock are on the control plane only.
 */
import type { Meter } from "../../contract/routes.ts";
import { windowOf } from "../../core/meters.ts";
import { type Clock, shiftableClock } from "../clock.ts";
import { type ControlPart, startControlPlane } from "../control-plane.ts";
import { RequestError, type ServiceRoute, startHttpService } from "../links/http-service.ts";
import type { Network } from "../links/network.ts";
import { limiterControl } from "./limiter-control.ts";
import { type LimiterStore, localLimiter } from "./store.ts";
import { replyOf, takesOfBody } from "./take-bundle.ts";
import { meterBody, refundsBody, takesBody } from "./wire.ts";

export type LimiterService = {
  url: string;
  controlUrl?: string;
  /** For a control plane that several roles share. */
  control: ControlPart;
  /** Lets running calls finish, then closes the store. */
  close(): Promise<void>;
};

const FORGET_EVERY_MS = 3_600_000;

/** The month before that of `nowMs`: the oldest that is kept. */
export const oldestKeptWindow = (nowMs: number): string => {
  const [year, month] = windowOf(nowMs).split("-").map(Number) as [number, number];
  return month === 1 ? `${year - 1}-12` : `${year}-${String(month - 1).padStart(2, "0")}`;
};

const limiterRoutes = (store: LimiterStore, clock: Clock): ServiceRoute[] => [
  {
    method: "POST",
    path: "/takes",
    handle: async ({ body }) => {
      if (!takesBody.Check(body))
        throw new RequestError(
          422,
          "expected {takes:[{charge_id, request_id, org, key, rate, meter}], tokens:[{key, rate, wanted}]}",
        );
      return { status: 200, body: replyOf(body, await store.take(takesOfBody(body), clock.instant())) };
    },
  },
  {
    method: "POST",
    path: "/refunds",
    handle: async ({ body }) => {
      if (!refundsBody.Check(body)) {
        throw new RequestError(422, "expected {refunds:[{charge_id, request_id, org, key, meter, amount}]}");
      }
      await store.refund(body.refunds, clock.instant());
      return { status: 200, body: { answers: body.refunds.map(({ charge_id }) => ({ charge_id, refunded: true })) } };
    },
  },
  {
    method: "GET",
    path: "/meters",
    handle: ({ query }) => {
      const [org, meter] = [query.get("org"), query.get("meter")];
      if (org === null || (meter !== "map_loads" && meter !== "design_analyses")) {
        throw new RequestError(422, "expected ?org=ID&meter=map_loads|design_analyses");
      }
      const at = clock.instant();
      return {
        status: 200,
        body: { org, meter, used: store.used(org, meter as Meter, at), window: windowOf(at.nowMs) },
      };
    },
  },
  {
    method: "PUT",
    path: "/meters",
    handle: ({ body }) => {
      if (!meterBody.Check(body)) throw new RequestError(422, "expected {org, meter, used}");
      store.setUsed(body.org, body.meter, body.used, clock.instant());
      return { status: 200, body };
    },
  },
];

/** `control` absent: no control plane of its own. `port: 0` lets the system choose. */
export const startLimiterService = async (options: {
  store: LimiterStore;
  host?: string;
  port: number;
  control?: { port: number; token: string };
  clock?: Clock;
  network?: Network | undefined;
}): Promise<LimiterService> => {
  const { store, clock = shiftableClock() } = options;
  const control = limiterControl(localLimiter(store, clock));
  const forget = (): void => store.dropBefore(oldestKeptWindow(clock.nowMs() - clock.offsetMs()));
  forget();
  const service = await startHttpService({
    host: options.host ?? "127.0.0.1",
    port: options.port,
    network: options.network,
    routes: limiterRoutes(store, clock),
  });
  const plane =
    options.control === undefined ? null : await startControlPlane({ ...options.control, parts: [control] });
  const forgetting = setInterval(forget, FORGET_EVERY_MS);
  forgetting.unref();
  return {
    url: service.url,
    ...(plane === null ? {} : { controlUrl: plane.url }),
    control,
    close: async () => {
      clearInterval(forgetting);
      await Promise.all([service.close(), plane?.close()]);
      store.close();
    },
  };
};
