/**
 * Random records of the domain: organizations, keys, origins, addresses, credentials. Values that should often match (an
 * origin and an allowlist that names it) are drawn from small pools; values whose shape alone matters, from wide ones.
 */
import fc from "fast-check";
import { PRODUCTS, type Product, SCOPES, type Scope } from "../../src/contract/routes.ts";
import type { KeyRecord, KeySnapshot, Organization, Tier } from "../../src/core/call.ts";

/** The values that an arbitrary draws. */
export type Drawn<A> = A extends fc.Arbitrary<infer Value> ? Value : never;

/** A moment in the middle of a month, far from the month's ends. */
export const NOW_MS = Date.UTC(2026, 4, 15, 12);

export const tierArb: fc.Arbitrary<Tier | null> = fc.constantFrom<Tier | null>("Pro", "Free", null);

export const scopesArb: fc.Arbitrary<Scope[]> = fc.subarray([...SCOPES]);
export const productsArb: fc.Arbitrary<Product[]> = fc.subarray([...PRODUCTS]);
export const scopeArb: fc.Arbitrary<Scope> = fc.constantFrom(...SCOPES);
export const productArb: fc.Arbitrary<Product> = fc.constantFrom(...PRODUCTS);

export const organizationArb: fc.Arbitrary<Organization> = fc.record({
  id: fc.constantFrom("org_a", "org_b"),
  tier: tierArb,
  map_load_allowance: fc.nat({ max: 20 }),
  key_limit: fc.nat({ max: 4 }),
  basemap_style_id: fc.constantFrom(null, "svc-dusk"),
  in_flight_cap: fc.constantFrom(null, 0, 1, 3),
});

export const ORIGINS = ["https://app.example", "https://app.example:8443", "http://localhost:5173"] as const;
const ADDRESSES = ["127.0.0.1", "10.1.2.3", "192.0.2.77", "2001:db8::1"] as const;

export const keyArb: fc.Arbitrary<KeyRecord> = fc.record({
  id: fc.constantFrom("key_1", "key_2"),
  org_id: fc.constantFrom("org_a", "org_b"),
  kind: fc.constantFrom("publishable" as const, "server" as const),
  env: fc.constantFrom("live" as const, "test" as const),
  name: fc.constant(""),
  scopes: scopesArb,
  products: productsArb,
  allowed_origins: fc.subarray([...ORIGINS]),
  allowed_ips: fc.subarray([...ADDRESSES, "10.0.0.0/8", "2001:db8::/32"]),
  vendor_acknowledged: fc.boolean(),
  status: fc.constantFrom("valid" as const, "revoked" as const, "expired" as const),
  created_at: fc.constant(NOW_MS - 86_400_000),
  expires_at: fc.constantFrom(null, NOW_MS - 1, NOW_MS, NOW_MS + 1),
  last4: fc.constant("0000"),
});

/** Key and organization that belong together. */
export const snapshotArb: fc.Arbitrary<KeySnapshot> = fc
  .record({ key: keyArb, org: organizationArb })
  .map(({ key, org }) => ({ key: { ...key, org_id: org.id }, org }));

const BASE62 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const text = (alphabet: string, minLength: number, maxLength: number): fc.Arbitrary<string> =>
  fc.string({ unit: fc.constantFrom(...alphabet), minLength, maxLength });

const segmentArb = text(`${BASE62}_-`, 8, 60);
/** A header segment of a JWT always begins with `eyJ`: it is the base64url of `{"`. */
const jwtArb = fc.tuple(segmentArb, segmentArb, segmentArb).map(([h, p, s]) => `eyJ${h}.${p}.${s}`);

const envArb = fc.constantFrom("live_", "test_", "");
/** Keys as this project makes them, and as another deployment may: base64 with its special characters. */
const keySecretArb = fc
  .tuple(
    fc.constantFrom("svc_pk_", "svc_sk_"),
    envArb,
    fc.oneof(text(BASE62, 16, 60), text(`${BASE62}+/=_-.~`, 16, 60)),
  )
  .map((parts) => parts.join(""))
  // Three dots mark a masked credential; no issuer puts them into a secret.
  .filter((secret) => !secret.includes("..."));
const sessionTokenArb = fc
  .tuple(fc.constantFrom("live", "test", "canary"), jwtArb)
  .map(([env, jwt]) => `svc_sess_${env}_${jwt}`);
export const credentialArb = fc.oneof(keySecretArb, sessionTokenArb, jwtArb);

/** Ways to cut bytes into chunks, including empty chunks and single bytes. */
export const cutsArb: fc.Arbitrary<number[] | "every byte"> = fc.oneof(
  { weight: 4, arbitrary: fc.array(fc.nat({ max: 10_000 }), { maxLength: 12 }) },
  fc.constant("every byte" as const),
);
export const chunksOf = (bytes: Uint8Array, cuts: number[] | "every byte"): Uint8Array[] => {
  if (cuts === "every byte") return [...bytes].map((byte) => Uint8Array.of(byte));
  const at = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length];
  return at.slice(1).map((end, i) => bytes.slice(at[i], end));
};
