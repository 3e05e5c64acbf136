/**
 * Decides creations, changes and revocations of keys (specification 4.4, 7.3; items 124-141, B5). Pure functions over
 * the organization and its keys; the key service runs them in one transaction, because the key limit depends on state.
 */
import type { AnyRefusalName } from "../contract/refusals.ts";
import { PRODUCTS, type Product, SCOPES, type Scope } from "../contract/routes.ts";
import { storedProduct } from "./admission.ts";
import { type KeyKind, type KeyRecord, type Organization, TIER_ADMITS } from "./records.ts";

export type KeyCreation = {
  kind: KeyKind;
  env?: "live" | "test";
  name?: string;
  scopes?: string[];
  products?: string[];
  allowed_origins?: string[];
  allowed_ips?: string[];
  acknowledge_vendor?: boolean;
  /** The same under the record's name, so that a record that was read can be sent back. */
  vendor_acknowledged?: boolean;
  expires_at?: number | null;
};

export type KeyUpdate = Omit<Partial<KeyCreation>, "kind" | "env">;

export type ManagementRefusal = { refuse: AnyRefusalName };

/** What both requests are judged as: the key before (`null` for a creation) and after. */
type Change = { org: Organization; before: KeyRecord | null; after: KeyDraft; liveKeys: number };

type KeyDraft = {
  kind: KeyKind;
  env: "live" | "test";
  scopes: string[];
  products: string[];
  allowed_origins: string[];
  vendor_acknowledged: boolean;
};

type ManagementCheck = (change: Change) => ManagementRefusal["refuse"] | null;

const planIsRecognized: ManagementCheck = ({ org }) => (org.tier === null ? "plan_required" : null);

const scopesAreKnown: ManagementCheck = ({ after }) =>
  after.scopes.every((scope) => (SCOPES as readonly string[]).includes(scope)) ? null : "unknown_scope";

const productsAreKnown: ManagementCheck = ({ after }) =>
  after.products.every((product) => (PRODUCTS as readonly string[]).includes(product)) ? null : "unknown_product";

/** Also refuses a change that removes the last origin (item 139), unless there was none. */
const livePublishableHasOrigins: ManagementCheck = ({ before, after }) => {
  const hadOrigins = before === null || before.allowed_origins.length > 0;
  return after.kind === "publishable" && after.env === "live" && hadOrigins && after.allowed_origins.length === 0
    ? "publishable_live_requires_origins"
    : null;
};

const kindIsInPlan: ManagementCheck = ({ org, before, after }) =>
  before === null && org.tier === "Free" && after.kind !== "publishable" ? "free_plan_publishable_only" : null;

/** Only a request that adds the scope has to acknowledge it (items 137-138). */
const vendorIsAcknowledged: ManagementCheck = ({ before, after }) => {
  const isAsked = after.scopes.includes("vendor") && before?.scopes.includes("vendor") !== true;
  return isAsked && !after.vendor_acknowledged ? "vendor_scope_requires_acknowledgement" : null;
};

/** Only additions are held against the tier (items 131, 136, 137), including those made by lifting a restriction. */
const widensWithinTier: ManagementCheck = ({ org, before, after }) => {
  if (org.tier === null) return null;
  const admits = TIER_ADMITS[org.tier];
  const scopes = after.scopes.filter((scope) => before === null || !before.scopes.includes(scope as Scope));
  if (scopes.some((scope) => !admits.scopes.includes(scope as Scope))) return "tier_capability_not_allowed";
  const named =
    before === null
      ? (after.products as Product[])
      : PRODUCTS.filter(
          (product) =>
            storedProduct({ ...before, products: after.products as Product[] }, product) &&
            !storedProduct(before, product),
        );
  return named.some((product) => !admits.products.includes(product)) ? "tier_capability_not_allowed" : null;
};

/** Revoked and expired keys do not count (item 140). */
const keyLimitHasRoom: ManagementCheck = ({ org, before, liveKeys }) =>
  before === null && liveKeys >= org.key_limit ? "key_limit_reached" : null;

/** B5, after the checks of the API: 401, role, well-formed body. */
const MANAGEMENT_ORDER: readonly ManagementCheck[] = [
  ...[planIsRecognized, scopesAreKnown, productsAreKnown, livePublishableHasOrigins],
  ...[kindIsInPlan, vendorIsAcknowledged, widensWithinTier, keyLimitHasRoom],
];

const decide = (change: Change): ManagementRefusal | null => {
  for (const check of MANAGEMENT_ORDER) {
    const refuse = check(change);
    if (refuse !== null) return { refuse };
  }
  return null;
};

const isAcknowledged = ({ acknowledge_vendor, vendor_acknowledged }: KeyUpdate): boolean =>
  acknowledge_vendor === true || vendor_acknowledged === true;

/** The record without id, times and secret, or the refusal. `liveKeys` counts valid, unexpired keys. */
export const decideCreation = (
  org: Organization,
  liveKeys: number,
  request: KeyCreation,
): Omit<KeyRecord, "id" | "created_at" | "last4"> | ManagementRefusal => {
  const after = {
    kind: request.kind,
    env: request.env ?? "live",
    scopes: request.scopes ?? [],
    products: request.products ?? [],
    allowed_origins: request.allowed_origins ?? [],
    vendor_acknowledged: isAcknowledged(request),
  };
  const refusal = decide({ org, before: null, after, liveKeys });
  if (refusal !== null) return refusal;
  return {
    ...after,
    scopes: after.scopes as Scope[],
    products: after.products as Product[],
    org_id: org.id,
    name: request.name ?? "",
    allowed_ips: request.allowed_ips ?? [],
    status: "valid",
    expires_at: request.expires_at ?? null,
  };
};

/** The changed record, or the refusal. A key that is foreign, revoked or unknown is `not_found` (items 127, 141). */
export const decideUpdate = (
  org: Organization,
  key: KeyRecord | null,
  request: KeyUpdate,
): KeyRecord | ManagementRefusal => {
  if (key === null || key.org_id !== org.id || key.status !== "valid") return { refuse: "not_found" };
  const after = {
    kind: key.kind,
    env: key.env,
    scopes: request.scopes ?? key.scopes,
    products: request.products ?? key.products,
    allowed_origins: request.allowed_origins ?? key.allowed_origins,
    vendor_acknowledged: key.vendor_acknowledged || isAcknowledged(request),
  };
  const refusal = decide({ org, before: key, after, liveKeys: 0 });
  if (refusal !== null) return refusal;
  return {
    ...key,
    ...after,
    scopes: after.scopes as Scope[],
    products: after.products as Product[],
    name: request.name ?? key.name,
    allowed_ips: request.allowed_ips ?? key.allowed_ips,
    expires_at: request.expires_at === undefined ? key.expires_at : request.expires_at,
  };
};

/** The revoked record, or `not_found`. Allowed on any tier; final (item 63). */
export const decideRevocation = (org: Organization, key: KeyRecord | null): KeyRecord | ManagementRefusal =>
  key === null || key.org_id !== org.id || key.status !== "valid"
    ? { refuse: "not_found" }
    : { ...key, status: "revoked" };
