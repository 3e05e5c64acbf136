/**
 * The records behind a decision: key, organization, and what a tier admits (specification 2.3, 3; items 40-63, 75). Each is
 * written once, as a schema: stores, links, control plane and API description read the fields here.
 */
import { type Static, Type } from "typebox";
import { PRODUCTS, type Product, SCOPES, type Scope } from "../contract/routes.ts";

const Text = Type.String();
const Id = Type.String({ minLength: 1 });
const Count = Type.Integer({ minimum: 0 });

const TIERS = ["Free", "Pro"] as const;
export type Tier = (typeof TIERS)[number];

export const ORGANIZATION = Type.Object({
  id: Id,
  /** `null`: no recognized API plan record (items 14, 130, 158). */
  tier: Type.Union([Type.Enum(TIERS), Type.Null()]),
  /** Map loads a month (item 228). */
  map_load_allowance: Count,
  /** Live keys that the plan allows (item 140). */
  key_limit: Count,
  basemap_style_id: Type.Union([Text, Type.Null()]),
  /** Cap on calls in flight; `null`: the deployment's default. */
  in_flight_cap: Type.Union([Count, Type.Null()]),
});
export type Organization = Static<typeof ORGANIZATION>;

/** A key record as it is stored, sent and shown (item 50). */
export const KEY_RECORD = Type.Object({
  id: Id,
  org_id: Id,
  kind: Type.Enum(["publishable", "server"]),
  /** Environment in the key's text (item 51). */
  env: Type.Enum(["live", "test"]),
  name: Text,
  scopes: Type.Array(Type.Enum([...SCOPES])),
  /** Empty: no key-level restriction except `viewer` (item 57). */
  products: Type.Array(Type.Enum([...PRODUCTS])),
  /** Exact origins, scheme, host and port (item 52). */
  allowed_origins: Type.Array(Text),
  /** Addresses or CIDR blocks; empty: no restriction (item 55). */
  allowed_ips: Type.Array(Text),
  vendor_acknowledged: Type.Boolean(),
  status: Type.Enum(["valid", "revoked", "expired"]),
  created_at: Type.Number(),
  expires_at: Type.Union([Type.Null(), Type.Number()]),
  /** The last four characters of the secret, to recognise the key by. */
  last4: Text,
});
export type KeyRecord = Static<typeof KEY_RECORD>;
export type KeyKind = KeyRecord["kind"];

export type KeySnapshot = { key: KeyRecord; org: Organization };

/** What each tier admits (items 13, 48, 75; A15): Free only publishable keys and the product `tile`. */
export const TIER_ADMITS: Readonly<
  Record<Tier, { products: readonly Product[]; scopes: readonly Scope[]; kinds: readonly KeyKind[] }>
> = {
  Free: { products: ["tile"], scopes: ["maps"], kinds: ["publishable"] },
  Pro: { products: PRODUCTS, scopes: SCOPES, kinds: ["publishable", "server"] },
};

/** Defaults by tier (items 140, 228). */
export const TIER_DEFAULTS: Readonly<Record<Tier, { map_load_allowance: number; key_limit: number }>> = {
  Free: { map_load_allowance: 1_000, key_limit: 3 },
  Pro: { map_load_allowance: 100_000, key_limit: 25 },
};
