/**
 * How the second deployment reads the body of a creation and reports what it made: the names and shapes that the specification
 * leaves open (items 50, 126, 141).
 */
import type { Names } from "./names.ts";
import type { Reply } from "./replies.ts";
import type { Variant } from "./variants.ts";

type Fields = Readonly<Record<string, unknown>>;
type MadeKey = { id: string; secret: string; scopes: readonly string[] };
type Asked = { scopes: readonly string[]; products: readonly string[] };

const isRecord = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members that have another name here, by the variant; what stands in their place when nobody names them so. */
type Renamed = readonly [ours: string, theirs: string, otherwise?: unknown];
const RENAMED: Readonly<Partial<Record<Variant, Renamed>>> = {
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
    if (!is(variant as Variant)) continue;
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
