/**
 * A whole deployment in this process for a small stage: three services over real links, one or two API replicas, demo data, and
 * what judges know beforehand.
 */
import type { Rate } from "../core/rate-limit.ts";
import { type InProcess, startInProcess } from "../deployments/in-process.ts";
import type { Limits } from "../history/stage-facts.ts";
import type { Parts } from "../platform/parts.ts";
import type { SeedTenant } from "../platform/seed.ts";
import { type FaultyLink, startFaultyLink } from "./faulty-link.ts";

export type DeploymentOptions = {
  tenants: SeedTenant[];
  globalInFlight?: number;
  orgInFlight?: number;
  serviceMs?: number;
  tokens?: number;
  rate?: Rate;
  replicas?: 1 | 2;
  /** Puts breakable links between the API and its two services. */
  breakable?: true;
};

export type Links = { limiter: FaultyLink; keys: FaultyLink };

export type SmallDeployment = InProcess & { limits: Limits; links: Links | null };

/** Short, so that stages can wait for a changed record. */
export const REVOCATION_BUDGET_MS = 200;
/** Longer than the default, so that a busy machine does not look like a slow limiter. */
export const LIMITER_BUDGET_MS = 700;
/** Practically unlimited. */
export const MANY = 10_000;

/** Longer than any stage keeps the limiter away, plus the longest pause between refund attempts. */
const STOP_DEADLINE_MS = 4_000;
const KEY_SERVICE_BUDGET_MS = 1_000;

export const startSmallDeployment = async (
  name: string,
  parts: Parts,
  options: DeploymentOptions,
): Promise<SmallDeployment> => {
  const { replicas = 1, serviceMs = 20, rate, globalInFlight = MANY, orgInFlight = MANY, tokens = 4 } = options;
  const limits: Limits = {
    ...{ replicas, slots: globalInFlight, service_ms: serviceMs },
    ...{ global_in_flight: globalInFlight, org_in_flight: orgInFlight },
    ...(rate && { rate_per_s: rate.perS, burst: rate.burst }),
    revocation_budget_ms: REVOCATION_BUDGET_MS,
    ...{ limiter_budget_ms: LIMITER_BUDGET_MS, key_service_budget_ms: KEY_SERVICE_BUDGET_MS },
  };
  let links: Links | null = null;
  const closeLinks = async (): Promise<void> => {
    await links?.limiter.close();
    await links?.keys.close();
  };
  const breakable = async (services: { keys: string; limiter: string }): Promise<{ keys: string; limiter: string }> => {
    links = { keys: await startFaultyLink(services.keys), limiter: await startFaultyLink(services.limiter) };
    return { keys: links.keys.url, limiter: links.limiter.url };
  };
  try {
    const deployment = await startInProcess({
      name,
      parts,
      role: {
        controlPort: 0,
        globalInFlight,
        orgInFlight,
        rateLimit: rate ?? { perS: MANY, burst: MANY },
        inference: { slots: globalInFlight, serviceMs, tokens },
        limiterBudgetMs: LIMITER_BUDGET_MS,
        keyServiceBudgetMs: KEY_SERVICE_BUDGET_MS,
        stopDeadlineMs: STOP_DEADLINE_MS,
        logLevel: "debug",
      },
      links: options.breakable === true ? breakable : undefined,
      replicas,
      tenants: options.tenants,
      target: { limits, permits: { writes: true, quota_burn: true } },
    });
    return { ...deployment, limits, links, close: () => deployment.close().then(closeLinks) };
  } catch (error) {
    await closeLinks();
    throw error;
  }
};
