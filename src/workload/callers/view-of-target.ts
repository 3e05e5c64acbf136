/** A target file without its secrets: what stories may know (target-view.ts). */
import type { LimitsInView, RoleInView, TargetView, TenantInView, Tier } from "./target-view.ts";

/** The part of a target file that a view is made of. */
export type StatedTarget = {
  readonly tile_url?: string;
  readonly limits?: LimitsInView;
  readonly permits?: { readonly writes?: boolean; readonly quota_burn?: boolean };
  readonly budget?: { readonly map_loads?: number; readonly analyses?: number };
  readonly tenants?: readonly {
    readonly org: string;
    readonly tier?: Exclude<Tier, null>;
    readonly limit?: number;
    readonly weight?: number;
    readonly publishable?: { readonly origin?: string };
    readonly server?: object;
  }[];
  /** Roles by name. */
  readonly credentials?: object;
};

type StatedRole = {
  readonly org?: string;
  readonly tier?: Exclude<Tier, null>;
  readonly limit?: number;
  readonly origin?: string;
};

/**
 * Both routes of scope `maps` are extensions of the reference platform (item 128). A file states where tiles are; who serves
 * them where the reference does has taken over its extensions, and anybody else has no reason to offer its map loads.
 */
const TILES_OF_THE_REFERENCE = /\/maps\/tiles\/\{z\}\/\{x\}\/\{y\}$/;

/** What was read from the deployment and is in no file: map loads used so far, own in-flight caps. */
export type TenantReadings = Readonly<Record<string, { used?: number; inFlightCap?: number }>>;

export const viewOf = (target: StatedTarget, readings: TenantReadings = {}): TargetView => {
  const tenants = (target.tenants ?? []).map(
    ({ org, tier, limit, weight, publishable, server }): TenantInView => ({
      org,
      tier,
      allowance: limit,
      ...readings[org],
      weight,
      publishable: publishable?.origin !== undefined,
      server: server !== undefined,
    }),
  );
  const roles: Record<string, RoleInView> = {};
  for (const [role, stated] of Object.entries(target.credentials ?? {}) as [string, StatedRole][]) {
    const { org, tier, limit, origin } = stated;
    const { inFlightCap: _ofTenants, ...read } = readings[org ?? ""] ?? {};
    roles[role] = { ...read, org, tier, allowance: limit, hasOrigin: origin !== undefined };
  }
  const { map_loads: mapLoads, analyses } = target.budget ?? {};
  return {
    tenants,
    roles,
    limits: target.limits ?? {},
    budget: { mapLoads, analyses },
    tiles: target.tile_url !== undefined,
    mapLoads: TILES_OF_THE_REFERENCE.test(target.tile_url ?? ""),
    permits: { writes: target.permits?.writes === true, quotaBurn: target.permits?.quota_burn === true },
  };
};
