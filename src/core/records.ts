/** The records behind a decision: key, organization, and what a tier admits (specification 2.3, 3; items 40-63, 75). */
import type { Product, Scope } from "../contract/routes.ts";

export type Tier = "Free" | "Pro";

export type Organization = {
  id: string;
  /** `null`: no recognized API plan record (items 14, 130, 158). */
  tier: Tier | null;
  /** Map loads a month (item 228). */
  map_load_allowance: number;
  /** Live keys that the plan allows (item 140). */
  key_limit: number;
  basemap_style_id: string | null;
  /** Cap on calls in flight; `null`: the deployment's default. */
  in_flight_cap: number | null;
};

export type KeyKind = "publishable" | "server";
type KeyStatus = "valid" | "revoked" | "expired";

export type KeyRecord = {
  id: string;
  org_id: string;
  kind: KeyKind;
  /** Environment in the key's text (item 51). */
  env: "live" | "test";
  name: string;
  scopes: Scope[];
  /** Empty: no key-level restriction except `viewer` (item 57). */
  products: Product[];
  /** Exact origins, scheme, host and port (item 52). */
  allowed_origins: string[];
  /** Addresses or CIDR blocks; empty: no restriction (item 55). */
  allowed_ips: string[];
  vendor_acknowledged: boolean;
  status: KeyStatus;
  created_at: number;
  expires_at: number | null;
  /** The last four characters, to recognise it by. */
  last4: string;
};

/** Key and organization as they were at one moment. */
export type KeySnapshot = { key: KeyRecord; org: Organization };

/** What each tier admits (items 13, 48, 75; A15): Free only publishable keys and the product `tile`. */
export const TIER_ADMITS: Readonly<
  Record<Tier, { products: readonly Product[]; scopes: readonly Scope[]; kinds: readonly KeyKind[] }>
> = {
  Free: { products: ["tile"], scopes: ["maps"], kinds: ["publishable"] },
  Pro: {
    products: ["chat", "editor", "viewer", "tile"],
    scopes: ["ai", "design", "maps", "vendor"],
    kinds: ["publishable", "server"],
  },
};

/** Defaults by tier (items 140, 228). */
export const TIER_DEFAULTS: Readonly<Record<Tier, { map_load_allowance: number; key_limit: number }>> = {
  Free: { map_load_allowance: 1_000, key_limit: 3 },
  Pro: { map_load_allowance: 100_000, key_limit: 25 },
};
