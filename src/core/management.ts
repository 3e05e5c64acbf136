/**
 * Decides creations, changes and revocations of keys (specification 4.4, 7.3; items 124-141, B5), as pure functions that
 * the key service runs in one transaction, because the key limit depends on state.
 */
import { type Static, Type } from "typebox";
import type { AnyRefusalName } from "../contract/refusals.ts";
import { PRODUCTS, type Product, SCOPES, type Scope } from "../contract/routes.ts";
import { KEY_RECORD, type KeyRecord, type Organization, TIER_ADMITS } from "./call.ts";
import { storedProduct } from "./meters.ts";

const texts = (most: number) => Type.Optional(Type.Array(Type.String(), { maxItems: most }));

/** The fields that may be given and changed. Any scope passes here: checks refuse an unknown one by its subcode (item 134). */
export const KEY_UPDATE = Type.Object({
  name: Type.Optional(Type.String({ maxLength: 200 })),
  scopes: texts(100),
  products: texts(100),
  allowed_origins: texts(1_000),
  allowed_ips: texts(1_000),
  acknowledge_vendor: Type.Optional(Type.Boolean()),
  /** The same under the record's name, so that a record that was read can be sent back. */
  vendor_acknowledged: Type.Optional(Type.Boolean()),
  expires_at: Type.Optional(Type.Union([Type.Null(), Type.Integer({ minimum: 0 })])),
});
export type KeyUpdate = Static<typeof KEY_UPDATE>;

const { kind, env } = KEY_RECORD.properties;
export const KEY_CREATION = Type.Object({ kind, env: Type.Optional(env), ...KEY_UPDATE.properties });
export type KeyCreation = Static<typeof KEY_CREATION>;

export type ManagementRefusal = { refuse: AnyRefusalName };

/** A key without the fields that the store adds. Its scopes and products may be unknown until they are checked. */
type KeyDraft = Omit<KeyRecord, "id" | "created_at" | "last4">;

/** A creation or an update as the checks see it: the key before (`null` for a creation) and after. */
type Change = { org: Organization; before: KeyRecord | null; after: KeyDraft; liveKeys: number };

type ManagementCheck = (change: Change) => ManagementRefusal["refuse"] | null;

const planIsRecognized: ManagementCheck = ({ org }) => (org.tier === null ? "plan_required" : null);

const scopesAreKnown: ManagementCheck = ({ after }) =>
  after.scopes.every((scope) => SCOPES.includes(scope)) ? null : "unknown_scope";

const productsAreKnown: ManagementCheck = ({ after }) =>
  after.products.every((product) => PRODUCTS.includes(product)) ? null : "unknown_product";

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
  const scopes = after.scopes.filter((scope) => before?.scopes.includes(scope) !== true);
  const isNew = (product: Product): boolean => before === null || !storedProduct(before, product);
  const named = before === null ? after.products : PRODUCTS.filter((product) => storedProduct(after, product));
  const fits =
    scopes.every((scope) => admits.scopes.includes(scope)) &&
    named.filter(isNew).every((product) => admits.products.includes(product));
  return fits ? null : "tier_capability_not_allowed";
};

/** Revoked and expired keys do not count (item 140). */
const keyLimitHasRoom: ManagementCheck = ({ org, before, liveKeys }) =>
  before === null && liveKeys >= org.key_limit ? "key_limit_reached" : null;

/** B5, after the checks of `order.ts`. */
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

export const NEW_KEY = {
  ...{ name: "", scopes: [], products: [], allowed_origins: [], allowed_ips: [] },
  ...{ vendor_acknowledged: false, expires_at: null },
};

const changed = (before: Pick<KeyRecord, keyof typeof NEW_KEY>, request: KeyUpdate) => ({
  name: request.name ?? before.name,
  scopes: (request.scopes ?? before.scopes) as Scope[],
  products: (request.products ?? before.products) as Product[],
  allowed_origins: request.allowed_origins ?? before.allowed_origins,
  allowed_ips: request.allowed_ips ?? before.allowed_ips,
  vendor_acknowledged:
    before.vendor_acknowledged || request.acknowledge_vendor === true || request.vendor_acknowledged === true,
  expires_at: request.expires_at === undefined ? before.expires_at : request.expires_at,
});

/** The record without id, times and secret, or the refusal. `liveKeys` counts valid, unexpired keys. */
export const decideCreation = (org: Organization, liveKeys: number, request: KeyCreation) => {
  const given = { org_id: org.id, kind: request.kind, env: request.env ?? "live", status: "valid" as const };
  const after: KeyDraft = { ...given, ...changed(NEW_KEY, request) };
  return decide({ org, before: null, after, liveKeys }) ?? after;
};

const isLiveKeyOf = (org: Organization, key: KeyRecord | null): key is KeyRecord =>
  key?.org_id === org.id && key.status === "valid";

/** The changed record, or the refusal. A key that is foreign, revoked or unknown is `not_found` (items 127, 141). */
export const decideUpdate = (
  org: Organization,
  key: KeyRecord | null,
  request: KeyUpdate,
): KeyRecord | ManagementRefusal => {
  if (!isLiveKeyOf(org, key)) return { refuse: "not_found" };
  const after = { ...key, ...changed(key, request) };
  return decide({ org, before: key, after, liveKeys: 0 }) ?? after;
};

/** The revoked record, or `not_found`. Allowed on any tier; final (item 63). */
export const decideRevocation = (org: Organization, key: KeyRecord | null): KeyRecord | ManagementRefusal =>
  isLiveKeyOf(org, key) ? { ...key, status: "revoked" } : { refuse: "not_found" };
