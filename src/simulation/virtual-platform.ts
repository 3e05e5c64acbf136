/** The reference deployment, whole and unchanged, on a network and a clock of this thread: API, key service, limiter. */
import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import type { LedgerLine } from "../history/line.ts";
import type { StageFacts, TenantFacts } from "../history/stage-facts.ts";
import { EMBEDDED_LIMITS } from "../platform/embedded-limits.ts";
import { makeSecret } from "../platform/keys/secret.ts";
import type { LimiterStore } from "../platform/limiter/store.ts";
import type { Parts } from "../platform/parts.ts";
import { type SeedTenant, planSeed, storeSeed } from "../platform/seed.ts";
import { type Running, startRole } from "../platform/start-role.ts";
import type { Target } from "../target/target.ts";
import type { ExploredLink } from "./fault-schedule.ts";
import { type VirtualLink, type VirtualNetwork, createVirtualNetwork } from "./virtual-network.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** In the middle of a month. */
export const VIRTUAL_START_MS = Date.UTC(2026, 4, 14, 12);

const TENANTS: readonly SeedTenant[] = Array.from({ length: 12 }, (_, at) => ({
  org: `org_t${String(at + 1).padStart(2, "0")}`,
  tier: "Pro",
  allowance: 1_000_000,
  used: 0,
}));

export type VirtualPlatform = {
  network: VirtualNetwork;
  links: Record<ExploredLink, VirtualLink>;
  target: Target;
  tenants: Record<string, TenantFacts>;
  running: Running;
  witnesses(idRun: string): Required<Pick<StageFacts, "counts" | "gauges" | "ledger">>;
  log(): string;
  /** When the key service was asked for a record, in milliseconds of the clock. */
  lookupsMs: readonly number[];
  close(): Promise<void>;
};

type Kept = { limiter?: LimiterStore; lookupsMs: number[] };

/** The parts with what they keep laid open. */
const observed = (parts: Parts, time: VirtualTime, kept: Kept): Parts => ({
  ...parts,
  limiterStore: (store) => {
    kept.limiter = parts.limiterStore(store);
    return kept.limiter;
  },
  keyStore: (healthy) => {
    const store = parts.keyStore(healthy);
    const counted =
      <A, B>(look: (name: A) => B) =>
      (name: A): B => {
        kept.lookupsMs.push(time.nowMs());
        return look(name);
      };
    return { ...store, byHash: counted(store.byHash), byId: counted(store.byId) };
  },
});

/** To be called, and waited for, inside `time.until`. */
export const startVirtualPlatform = async (time: VirtualTime, parts: Parts, seed: number): Promise<VirtualPlatform> => {
  const network = createVirtualNetwork(time);
  const links: Partial<Record<ExploredLink, VirtualLink>> = {};
  const kept: Kept = { lookupsMs: [] };
  let log = "";
  const limits = EMBEDDED_LIMITS;
  const running = await startRole(
    "all",
    {
      network,
      sessionSecret: "virtual-session".padEnd(32, "s"),
      adminSecret: "virtual-admin".padEnd(32, "a"),
      globalInFlight: limits.global_in_flight,
      orgInFlight: limits.org_in_flight,
      rateLimit: { perS: limits.rate_per_s, burst: limits.burst },
      inference: { slots: limits.slots, serviceMs: limits.service_ms, tokens: 6, seed },
      limiterBudgetMs: limits.limiter_budget_ms,
      keyServiceBudgetMs: limits.key_service_budget_ms,
      stopDeadlineMs: 1_000,
      logLevel: "info",
      logTo: {
        write: (text) => {
          log += text;
        },
      },
      links: ({ keys, limiter }) => {
        const ways = { keys: network.through("keys", keys), limiter: network.through("limiter", limiter) };
        links.keys = ways.keys.link;
        links.limiter = ways.limiter.link;
        return { keys: ways.keys.url, limiter: ways.limiter.url };
      },
    },
    observed(parts, time, kept),
  );
  const administration = running.administration as NonNullable<Running["administration"]>;
  const planned = planSeed(TENANTS, { makeSecret, adminToken: () => "nobody", nowMs: VIRTUAL_START_MS });
  await storeSeed(planned, administration.keys, administration.limiter);
  const base = running.urls.api as string;
  const controlled = (path: string, run: string): unknown => {
    const route = running.api?.control.routes.find((one) => one.path === path);
    if (route === undefined) throw new Error(`the control plane has no ${path}`);
    const query = new URLSearchParams({ run });
    return (route.handle({ params: {}, query, body: undefined }) as { body: unknown }).body;
  };
  return {
    network,
    running,
    lookupsMs: kept.lookupsMs,
    links: links as Record<ExploredLink, VirtualLink>,
    target: {
      schema: "floodgate/target@1",
      name: "virtual",
      base_url: base,
      key_management_url: base,
      tile_url: `${base}/maps/tiles/{z}/{x}/{y}`,
      shedding: "fixed",
      stream_end: REFERENCE_STREAM_ENDS,
      exclusive: true,
      limits,
      permits: { writes: true, quota_burn: true, chaos: true },
      tenants: planned.target.tenants,
      credentials: planned.target.credentials as NonNullable<Target["credentials"]>,
    },
    tenants: Object.fromEntries(
      TENANTS.map(({ org, tier, allowance, used }) => [org, { tier, allowance, used_at_start: used }]),
    ),
    witnesses: (idRun) => ({
      counts: controlled("/counts", idRun) as NonNullable<StageFacts["counts"]>,
      gauges: [running.gauges() as NonNullable<StageFacts["gauges"]>[number]],
      ledger: [...((kept.limiter as LimiterStore).ledger(`${idRun}.`) as Iterable<LedgerLine>)],
    }),
    log: () => log,
    close: () => running.close(),
  };
};
