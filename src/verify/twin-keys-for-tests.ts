/**
 * How the second deployment of the tests (twin-for-tests.ts) reads the body of a creation and tells what it made: the names
 * and shapes that the specification leaves open (items 50, 126, 141).
 */
type Names = { is(variant: string): boolean };
type Fields = Readonly<Record<string, unknown>>;
type MadeKey = { id: string; secret: string; scopes: readonly string[] };

const isRecord = (value: unknown): value is Fields =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Members that have another name here, by the variant; what stands in their place when nobody names them so. */
const RENAMED: Readonly<Record<string, readonly [ours: string, theirs: string, otherwise?: unknown]>> = {
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

/** `null`: as the twin tells it otherwise. */
export const recordOf = ({ id, secret, scopes }: MadeKey, { is }: Names): unknown => {
  if (is("camel-key")) return { apiKey: { keyId: id, orgId: "o-1", scopes, value: secret } };
  if (is("listed-key")) return { meta: { id: "request-1" }, data: [{ uid: id, attributes: { token: secret } }] };
  return is("secret-alone") ? { secret } : null;
};
