/**
 * A whole deployment in this process for a small stage: three services over real links, one or two API replicas, the demo
 * data, and what a judge may know of it beforehand.
 */
import { knowControlToken } from "../client/control-planes.ts";
import { REFERENCE_STREAM_ENDS } from "../contract/streams.ts";
import type { Rate } from "../core/rate-limit.ts";
import type { Limits, TenantFacts } from "../history/stage-facts.ts";
import { makeSecret, mintAdminToken } from "../platform/keys/secret.ts";
import type { Parts } from "../platform/parts.ts";
import { planSeed, type Seed, type SeedTenant, storeSeed } from "../platform/seed.ts";
import { type RoleOptions, type Running, startRole } from "../platform/start-role.ts";
import type { Target } from "../target/target.ts";
import { type FaultyLink, startFaultyLink } from "./faulty-link.ts";

export type DeploymentOptions = {
  tenants: SeedTenant[];
  globalInFlight?: number;
  orgInFlight?: number;
  serviceMs?: number;
  tokens?: number;
  rate?: Rate;
  replicas?: 1 | 2;
  /** Puts links that can be broken between the API and its two services. */
  breakable?: true;
};

export type Links = { limiter: FaultyLink; keys: FaultyLink };

export type SmallDeployment = {
  /** The first one has the services as well. */
  apis: readonly Running[];
  /** One for each replica. */
  targets: readonly Target[];
  limits: Limits;
  tenants: Record<string, TenantFacts>;
  links: Links | null;
  /** Of all roles, at its most talkative. */
  log(): string;
  /** Look-ups of key records that the key service has answered so far. */
  lookups(): number;
  close(): Promise<void>;
};

/** Short, so that a change of a record can be waited for. */
export const REVOCATION_BUDGET_MS = 200;
/** Longer than the default: a busy machine is not to be taken for a slow limiter. */
export const LIMITER_BUDGET_MS = 700;
/** As good as no limit. */
export const MANY = 10_000;

/** Beyond what a stage keeps the limiter away for, and the longest pause between two tries of a refund. */
const STOP_DEADLINE_MS = 4_000;
const KEY_SERVICE_BUDGET_MS = 1_000;

const limitsOf = (options: DeploymentOptions): Limits & { global_in_flight: number; org_in_flight: number } => {
  const { replicas = 1, serviceMs = 20, rate, globalInFlight = MANY, orgInFlight = MANY } = options;
  return {
    replicas,
    slots: globalInFlight,
    service_ms: serviceMs,
    global_in_flight: globalInFlight,
    org_in_flight: orgInFlight,
    ...(rate === undefined ? {} : { rate_per_s: rate.perS, burst: rate.burst }),
    limiter_budget_ms: LIMITER_BUDGET_MS,
    key_service_budget_ms: KEY_SERVICE_BUDGET_MS,
    revocation_budget_ms: REVOCATION_BUDGET_MS,
  };
};

const targetOf = (name: string, api: Running, control: string, limits: Limits, seed: Seed): Target => ({
  schema: "floodgate/target@1",
  name,
  base_url: api.urls.api as string,
  key_management_url: api.urls.api as string,
  tile_url: `${api.urls.api}/maps/tiles/{z}/{x}/{y}`,
  control: { keys: control, limiter: control, api: [api.urls.control?.api as string] },
  shedding: "fixed",
  stream_end: REFERENCE_STREAM_ENDS,
  limits,
  permits: { writes: true, quota_burn: true },
  tenants: seed.target.tenants,
  credentials: seed.target.credentials as NonNullable<Target["credentials"]>,
});

/** Counts at the service, whatever a mutant has made of its store. */
const countingLookups = (parts: Parts, looked: () => void): Parts => ({
  ...parts,
  keyStore: (healthy) => {
    const store = parts.keyStore(healthy);
    const counted =
      <A, B>(look: (name: A) => B) =>
      (name: A): B => {
        looked();
        return look(name);
      };
    return { ...store, byHash: counted(store.byHash), byId: counted(store.byId) };
  },
});

export const startSmallDeployment = async (
  name: string,
  parts: Parts,
  options: DeploymentOptions,
): Promise<SmallDeployment> => {
  const limits = limitsOf(options);
  const secrets = { sessionSecret: `session-${name}`.padEnd(32, "s"), adminSecret: `admin-${name}`.padEnd(32, "a") };
  let log = "";
  let lookups = 0;
  const counting = countingLookups(parts, () => {
    lookups += 1;
  });
  const apiOptions: RoleOptions = {
    ...secrets,
    controlPort: 0,
    globalInFlight: limits.global_in_flight,
    orgInFlight: limits.org_in_flight,
    rateLimit: options.rate ?? { perS: MANY, burst: MANY },
    inference: { slots: limits.global_in_flight, serviceMs: limits.service_ms as number, tokens: options.tokens ?? 4 },
    limiterBudgetMs: LIMITER_BUDGET_MS,
    keyServiceBudgetMs: KEY_SERVICE_BUDGET_MS,
    stopDeadlineMs: STOP_DEADLINE_MS,
    logLevel: "debug",
    logTo: {
      write: (text: string) => {
        log += text;
      },
    },
  };
  const closers: (() => Promise<unknown>)[] = [];
  const close = async (): Promise<void> => {
    for (const end of closers.splice(0).reverse()) await end();
  };
  try {
    let links: Links | null = null;
    const breakable = async (services: {
      keys: string;
      limiter: string;
    }): Promise<{ keys: string; limiter: string }> => {
      links = { keys: await startFaultyLink(services.keys), limiter: await startFaultyLink(services.limiter) };
      closers.push(links.keys.close, links.limiter.close);
      return { keys: links.keys.url, limiter: links.limiter.url };
    };
    const first = await startRole(
      "all",
      options.breakable === true ? { ...apiOptions, links: breakable } : apiOptions,
      counting,
    );
    closers.push(first.close);
    const apis = [first];
    // Both replicas keep their own.
    const know = ({ urls, controlToken }: Running): void =>
      knowControlToken(urls.control?.api as string, controlToken as string);
    know(first);
    if (options.replicas === 2) {
      const { keys, limiter } = first.urls as { keys: string; limiter: string };
      const second = await startRole("api", { ...apiOptions, keys, limiter }, counting);
      closers.push(second.close);
      know(second);
      apis.push(second);
    }
    const { keys, limiter } = first.administration as NonNullable<Running["administration"]>;
    const nowMs = Date.now();
    const adminToken = (org: string): string => mintAdminToken({ secret: secrets.adminSecret, org, nowMs });
    const seed = planSeed(options.tenants, { makeSecret, adminToken, nowMs });
    await storeSeed(seed, keys, limiter);
    const tenants: Record<string, TenantFacts> = {};
    for (const { id, tier, map_load_allowance, map_loads_used } of seed.organizations) {
      tenants[id] = { tier, allowance: map_load_allowance ?? 0, used_at_start: map_loads_used };
    }
    const control = first.urls.control?.api as string;
    const targets = apis.map((api) => targetOf(name, api, control, limits, seed));
    return { apis, targets, limits, tenants, links, log: () => log, lookups: () => lookups, close };
  } catch (error) {
    await close();
    throw error;
  }
};
