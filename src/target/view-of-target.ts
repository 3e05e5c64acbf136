/** A target file without its secrets: what stories may know (workload/target-view.ts). */
import type { RoleInView, TargetView, TenantInView } from "../workload/target-view.ts";
import type { AdminCredential, KeyCredential, Target } from "./target.ts";

/** What was read from the deployment and is in no file: map loads used so far, own in-flight caps. */
export type TenantReadings = Readonly<Record<string, { used?: number; inFlightCap?: number }>>;

export const viewOf = (target: Target, readings: TenantReadings = {}): TargetView => {
  const tenants = (target.tenants ?? []).map((tenant): TenantInView => {
    const { used, inFlightCap } = readings[tenant.org] ?? {};
    return {
      org: tenant.org,
      ...(tenant.tier === undefined ? {} : { tier: tenant.tier }),
      ...(tenant.limit === undefined ? {} : { allowance: tenant.limit }),
      ...(used === undefined ? {} : { used }),
      ...(inFlightCap === undefined ? {} : { inFlightCap }),
      ...(tenant.weight === undefined ? {} : { weight: tenant.weight }),
      publishable: tenant.publishable?.origin !== undefined,
      server: tenant.server !== undefined,
    };
  });
  const roles: Record<string, RoleInView> = {};
  for (const [role, credential] of Object.entries(target.credentials ?? {}) as [
    string,
    KeyCredential | AdminCredential,
  ][]) {
    const used = credential.org === undefined ? undefined : readings[credential.org]?.used;
    roles[role] = {
      ...(used === undefined ? {} : { used }),
      ...(credential.org === undefined ? {} : { org: credential.org }),
      ...("tier" in credential && credential.tier !== undefined ? { tier: credential.tier } : {}),
      ...("limit" in credential && credential.limit !== undefined ? { allowance: credential.limit } : {}),
      hasOrigin: "origin" in credential && credential.origin !== undefined,
    };
  }
  const { map_loads: mapLoads, analyses } = target.budget ?? {};
  return {
    tenants,
    roles,
    limits: target.limits ?? {},
    budget: { ...(mapLoads === undefined ? {} : { mapLoads }), ...(analyses === undefined ? {} : { analyses }) },
    tiles: target.tile_url !== undefined,
    permits: { writes: target.permits?.writes === true, quotaBurn: target.permits?.quota_burn === true },
  };
};
