/** The reference deployment, whole and unchanged, on a network and a clock of this thread: API, key service, limiter. */
import { type InProcess, startInProcess } from "../deployments/in-process.ts";
import { loadTenants } from "../deployments/tenants.ts";
import { EMBEDDED_LIMITS as LIMITS } from "../platform/embedded-limits.ts";
import type { Parts } from "../platform/parts.ts";
import type { ExploredLink } from "./fault-schedule.ts";
import { createVirtualNetwork, type VirtualLink, type VirtualNetwork } from "./virtual-network.ts";
import type { VirtualTime } from "./virtual-time.ts";

/** In the middle of a month. */
export const VIRTUAL_START_MS = Date.UTC(2026, 4, 14, 12);

export type VirtualPlatform = InProcess & { network: VirtualNetwork; links: Record<ExploredLink, VirtualLink> };

/** To be called, and waited for, inside `time.until`. */
export const startVirtualPlatform = async (time: VirtualTime, parts: Parts, seed: number): Promise<VirtualPlatform> => {
  const network = createVirtualNetwork(time);
  const links: Partial<Record<ExploredLink, VirtualLink>> = {};
  const deployment = await startInProcess({
    name: "virtual",
    parts,
    role: {
      network,
      globalInFlight: LIMITS.global_in_flight,
      orgInFlight: LIMITS.org_in_flight,
      rateLimit: { perS: LIMITS.rate_per_s, burst: LIMITS.burst },
      inference: { slots: LIMITS.slots, serviceMs: LIMITS.service_ms, tokens: 6, seed },
      limiterBudgetMs: LIMITS.limiter_budget_ms,
      keyServiceBudgetMs: LIMITS.key_service_budget_ms,
      stopDeadlineMs: 1_000,
      logLevel: "info",
    },
    links: (services) => {
      const ways = {
        keys: network.through("keys", services.keys),
        limiter: network.through("limiter", services.limiter),
      };
      Object.assign(links, { keys: ways.keys.link, limiter: ways.limiter.link });
      return { keys: ways.keys.url, limiter: ways.limiter.url };
    },
    tenants: loadTenants(),
    target: { exclusive: true },
    nowMs: () => time.nowMs(),
  });
  return { ...deployment, network, links: links as Record<ExploredLink, VirtualLink> };
};
