/** The limiter service, whose counts the API replicas share: takes and refunds in batches; the ledger for operators. */

import { Type } from "typebox";
import { type LedgerLine, windowOf } from "../../core/meters.ts";
import type { Clock } from "../clock.ts";
import type { Service } from "../control-plane.ts";
import * as serving from "../links/http-service.ts";
import { METER, REFUND, TAKE } from "../ports.ts";
import type { LimiterStore } from "./store.ts";

/** The operator's route that lists charges and refunds. */
export const ledgerRoute = (
  ledger: (run: string) => Iterable<LedgerLine> | AsyncIterable<LedgerLine>,
): serving.ServiceRoute =>
  serving.route("GET", "/ledger", ({ query }) => serving.ndjson(ledger(query.get("run") ?? "")));

const FORGET_EVERY_MS = 3_600_000;

/** The month before that of `nowMs`, which is the oldest that is kept. */
export const oldestKeptWindow = (nowMs: number): string => windowOf(nowMs - new Date(nowMs).getUTCDate() * 86_400_000);

const TAKES = Type.Object({ takes: Type.Array(TAKE) });
const REFUNDS = Type.Object({ refunds: Type.Array(REFUND) });
const USED = Type.Object({ org: Type.String(), meter: METER, used: Type.Integer({ minimum: 0 }) });

const limiterRoutes = (store: LimiterStore, clock: Clock): serving.ServiceRoute[] => [
  serving.routeWith(TAKES, "POST", "/takes", async ({ takes }) => {
    const answers = await store.take(takes, clock.instant());
    return { answers: takes.map(({ charge_id }, at) => ({ charge_id, ...answers[at] })) };
  }),
  serving.routeWith(REFUNDS, "POST", "/refunds", async ({ refunds }) => {
    await store.refund(refunds, clock.instant());
    return { answers: refunds.map(({ charge_id }) => ({ charge_id, refunded: true })) };
  }),
  serving.route("GET", "/meters", ({ query }) => {
    const [org, meter] = [query.get("org"), query.get("meter")];
    if (org === null || (meter !== "map_loads" && meter !== "design_analyses")) {
      throw new serving.RequestError(422, "expected ?org=ID&meter=map_loads|design_analyses");
    }
    const at = clock.instant();
    return { org, meter, used: store.used(org, meter, at), window: windowOf(at.nowMs) };
  }),
  serving.routeWith(USED, "PUT", "/meters", (set) => {
    store.setUsed(set.org, set.meter, set.used, clock.instant());
    return set;
  }),
];

export const startLimiterService = async (
  { store, clock }: { store: LimiterStore; clock: Clock },
  at: serving.ListenAt,
): Promise<Service> => {
  const forget = (): void => store.dropBefore(oldestKeptWindow(clock.nowMs() - clock.offsetMs()));
  forget();
  const service = await serving.startHttpService({ ...at, routes: limiterRoutes(store, clock) });
  const forgetting = setInterval(forget, FORGET_EVERY_MS);
  forgetting.unref();
  return {
    url: service.url,
    control: { routes: [ledgerRoute(store.ledger)] },
    close: async () => {
      clearInterval(forgetting);
      await service.close();
      store.close();
    },
  };
};
