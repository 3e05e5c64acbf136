/**
 * The rules for creating and changing a key, in their order; and the member names and shapes of creations and their answers,
 * which the specification leaves open (items 50, 126, 141).
 */

import type { Names } from "./names.ts";
import { FREE_PRODUCTS, FREE_SCOPES, KNOWN_SCOPES, SCOPE_OF } from "./offer.ts";
import type { Reply } from "./replies.ts";
import type { ApiState, Key, Org } from "./state.ts";

export type KeyBody = Partial<{
  kind: string;
  env: string;
  scopes: string[];
  products: string[];
  allowed_origins: string[];
  allowed_ips: string[];
  acknowledge_vendor: boolean;
}>;

export type Wanted = ReturnType<typeof wantedOf>;

/** The key as it would become: the body's members, else the key's. */
export const wantedOf = ({ is }: ApiState, body: KeyBody, key: Key | undefined) => ({
  scopes: body.scopes ?? key?.scopes ?? [],
  products: body.products ?? key?.products ?? [],
  origins: body.allowed_origins ?? key?.origins ?? [],
  publishable: (body.kind ?? (key?.kind === "sk" ? "server" : "publishable")) === "publishable",
  isTest: is("live-is-asked-for") && key === undefined,
  body,
});

const nameRefusal = ({ has, detail, unauthenticated }: ApiState, { scopes, products }: Wanted): Reply | null => {
  const alienScope = [...scopes].some((scope) => !KNOWN_SCOPES.includes(scope));
  const alienProduct = products.some((product) => !(product in SCOPE_OF));
  if (has("tier-before-names") && (alienScope || alienProduct)) return detail(403, "tier_capability_not_allowed");
  if (alienScope && has("401-on-unknown-scope")) return unauthenticated();
  if (alienScope && !has("any-scope")) return detail(422, has("422-for-scope") ? "malformed_body" : "unknown_scope");
  return alienProduct && !has("any-product-name") ? detail(422, "unknown_product") : null;
};

const kindRefusal = ({ is, has, detail, malformed }: ApiState, of: Org, wanted: Wanted): Reply | null => {
  const { origins, publishable, isTest, body } = wanted;
  const unasked = has("no-origins-member-needed") && body.allowed_origins === undefined;
  if (publishable && origins.length === 0 && !has("no-origins-needed") && !unasked && !isTest)
    return detail(422, "publishable_live_requires_origins");
  const forTests = has("test-server-keys-for-free") && body.env === "test";
  if (of.tier === "Free" && !publishable && !has("server-keys-for-free") && !forTests)
    return detail(403, "free_plan_publishable_only");
  if ((has("no-server-keys-at-all") && !publishable) || (has("no-keys-for-free") && of.tier === "Free"))
    return detail(403, "free_plan_publishable_only");
  if (has("no-tiles-for-free") && of.tier === "Free") return detail(403, "tier_capability_not_allowed");
  if (is("server-keys-need-addresses") && !publishable) return malformed();
  if (body.allowed_ips !== undefined && !Array.isArray(body.allowed_ips)) return malformed();
  const isAddress = (text: string): boolean => /^[\d.]+(\/\d+)?$/.test(text) || has("takes-any-address");
  return body.allowed_ips?.every(isAddress) === false ? malformed() : null;
};

const vendorRefusal = (api: ApiState, of: Org, { scopes, body }: Wanted): Reply | null => {
  const { has, detail, acknowledged } = api;
  if (body.acknowledge_vendor === true) acknowledged.add(of.id);
  const onceForAll = has("acknowledges-for-ever") && acknowledged.has(of.id);
  const anyWord = onceForAll || (has("any-word-acknowledges") && body.acknowledge_vendor !== undefined);
  return scopes.includes("vendor") && body.acknowledge_vendor !== true && !has("vendor-without-word") && !anyWord
    ? detail(403, "vendor_scope_requires_acknowledgement")
    : null;
};

const tierRefusal = ({ has, detail }: ApiState, of: Org, wanted: Wanted, key: Key | undefined): Reply | null => {
  const { scopes, products } = wanted;
  // A key without restrictions has every product stored.
  const isStored = (product: string): boolean => key?.products.length === 0 && product in SCOPE_OF;
  const widens =
    of.tier === "Free" &&
    (scopes.some((s) => !FREE_SCOPES.includes(s)) || products.some((p) => !FREE_PRODUCTS.includes(p) && !isStored(p)));
  if (widens && has("refuses-and-widens") && key !== undefined) Object.assign(key, { scopes, products });
  return widens && !has("widens-beyond-tier") ? detail(403, "tier_capability_not_allowed") : null;
};

export const keyRefusal = (api: ApiState, of: Org, wanted: Wanted, key: Key | undefined): Reply | null =>
  nameRefusal(api, wanted) ??
  kindRefusal(api, of, wanted) ??
  vendorRefusal(api, of, wanted) ??
  tierRefusal(api, of, wanted, key);

type Fields = Readonly<Record<string, unknown>>;
type MadeKey = { id: string; secret: string; scopes: readonly string[] };
type Asked = { scopes: readonly string[]; products: readonly string[] };

const isRecord = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members that a variant calls by another name, and the value if that name is missing. */
type Renamed = readonly [ours: string, theirs: string, otherwise?: unknown];
const RENAMED: Readonly<Record<string, Renamed>> = {
  "kind-is-key-type": ["kind", "keyType", "publishable"],
  "kind-is-server-unless-told": ["kind", "keyType", "server"],
  "scopes-are-grants": ["scopes", "grants", ["maps"]],
  "products-are-surfaces": ["products", "surfaces"],
  "origins-are-web-origins": ["allowed_origins", "webOrigins"],
  "addresses-are-networks": ["allowed_ips", "networks"],
};

export const bodyRead = (body: unknown, { is }: Names): unknown => {
  if (!isRecord(body)) return body;
  const read: Record<string, unknown> = { ...body };
  for (const [variant, [ours, theirs, otherwise]] of Object.entries(RENAMED)) {
    if (!is(variant)) continue;
    const value = body[theirs] ?? otherwise;
    if (value === undefined) delete read[ours];
    else read[ours] = value;
  }
  return read;
};

const shapeOf = ({ id, secret, scopes }: MadeKey, { is }: Names): unknown => {
  if (is("camel-key")) return { apiKey: { keyId: id, orgId: "o-1", scopes, value: secret } };
  if (is("listed-key")) return { meta: { id: "request-1" }, data: [{ uid: id, attributes: { token: secret } }] };
  return is("secret-alone") ? { secret } : null;
};

export const recordOf = (made: MadeKey, { scopes, products }: Asked, names: Names): Reply => {
  const { is, has } = names;
  const { id, secret } = made;
  if (is("hides-the-secret")) return { status: 201, body: { id, scopes, products } };
  if (is("address-alone"))
    return { status: 201, body: { secret }, headers: { Location: `/v1/shared-api/api-keys/${id}` } };
  const shape = shapeOf(made, names);
  if (shape !== null) return { status: 201, body: shape };
  return {
    status: is("200-on-create") ? 200 : 201,
    body: is("nested-key")
      ? { api_key: { id, scopes }, secret }
      : { id, key: has("other-prefix") ? secret.slice(4) : secret, scopes, products },
  };
};
