/**
 * Who uses the embedded deployment: load tenants that are never refused for what they are, and quota tenants whose
 * allowance a stage can use up. Numbers are chosen for the stages of `run smoke` (stages.ts) and for two cores.
 */
import type { SeedTenant } from "../platform/seed.ts";

/** Load tenants are paid, with an allowance that no stage can reach. */
export const loadTenants = (count: number): SeedTenant[] =>
  Array.from({ length: count }, (_, at) => ({
    org: `org_t${String(at + 1).padStart(2, "0")}`,
    tier: "Pro",
    allowance: 1_000_000,
    used: 0,
  }));

/** Three Free tenants stop at their allowance, two paid ones at five times it; one of each begins in the middle. */
export const quotaTenants = (): SeedTenant[] => [
  { org: "org_q01", tier: "Free", allowance: 60, used: 0 },
  { org: "org_q02", tier: "Free", allowance: 40, used: 15 },
  { org: "org_q03", tier: "Free", allowance: 25, used: 0 },
  { org: "org_q04", tier: "Pro", allowance: 20, used: 0 },
  { org: "org_q05", tier: "Pro", allowance: 12, used: 20 },
];
