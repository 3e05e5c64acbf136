/** Calls of key management (section 4.4) and with the keys it creates. Bodies are not specified: the names are those of item 50. */
import { outcomeOf } from "../../contract/refusals.ts";
import type { AdminRole } from "../../target/target.ts";
import { json, role, type TestCall } from "../sending/test-call.ts";

export type KeyBody = {
  kind: "publishable" | "server";
  env?: "live" | "test";
  name?: string;
  scopes?: readonly string[];
  products?: readonly string[];
  allowed_origins?: readonly string[];
  allowed_ips?: readonly string[];
  acknowledge_vendor?: boolean;
  vendor_acknowledged?: boolean;
};

/** Lets an operator recognise a key that could not be removed. */
export const KEY_NAME = "floodgate-verify";
export const KEY_ORIGIN = "https://floodgate-verify.example";
export const FULL_SCOPES = ["ai", "design", "maps"] as const;

export const FULL_KEY = {
  ...({ kind: "publishable", env: "live" } as const),
  scopes: FULL_SCOPES,
  allowed_origins: [KEY_ORIGIN],
} satisfies KeyBody;
export const TILE_KEY = { ...FULL_KEY, scopes: ["maps"], products: ["tile"] } satisfies KeyBody;

/** Outcomes of section 7.3 and of using a key. */
export const OUTCOME = {
  ...{ scope: outcomeOf("insufficient_scope"), product: outcomeOf("product_not_allowed") },
  ...{ tier: outcomeOf("tier_capability_not_allowed"), mismatch: outcomeOf("session_origin_mismatch") },
  ...{ address: outcomeOf("ip_not_allowed"), unauthenticated: outcomeOf("unauthenticated") },
  ...{ limit: outcomeOf("key_limit_reached"), malformed: outcomeOf("malformed_body") },
};

export type MadeKey = { id: string; secret: string; admin: AdminRole; variable: string };

export const adminCredential = (admin: AdminRole) => ({ as: "admin", of: role(admin) }) as const;

type More = Partial<TestCall>;

export const createCall = (admin: AdminRole, key: KeyBody, more: More = {}): TestCall => ({
  ...{ route: "keys.create", credential: adminCredential(admin), origin: "none" },
  body: json({ name: KEY_NAME, ...key }),
  ...more,
});

const pathOfKey = (id: string): string => `/shared-api/api-keys/${encodeURIComponent(id)}`;

export const updateCall = (admin: AdminRole, id: string, key: Partial<KeyBody>, more: More = {}): TestCall => ({
  ...{ route: "keys.update", credential: adminCredential(admin), origin: "none" },
  ...{ path: pathOfKey(id), body: json(key) },
  ...more,
});

export const deleteCall = (admin: AdminRole, id: string, more: More = {}): TestCall => ({
  ...{ route: "keys.delete", credential: adminCredential(admin), origin: "none", path: pathOfKey(id) },
  ...more,
});

/** A call with a created key, to the exchange or a runtime route. */
export const withKey = (
  { secret, admin, variable }: MadeKey,
  call: Omit<TestCall, "credential" | "secret">,
): TestCall => ({
  ...call,
  credential: { as: secret.startsWith("svc_sk_") ? "server" : "publishable", of: role(admin) },
  secret: { value: secret, variable },
});

/** The exchange with a created publishable key, from its own origin. */
export const exchangeWith = (key: MadeKey, product: "chat" | "editor" | "tile", more: More = {}): TestCall =>
  withKey(key, {
    ...{ route: "sdk.sessions", origin: "listed", originValue: KEY_ORIGIN },
    ...{ product, what: "a key made by this run" },
    ...more,
  });

export const serverCallWith = (key: MadeKey, route: "design.styles" | "poi.enrich", more: More = {}): TestCall =>
  withKey(key, { ...{ route, origin: "none", what: "a server key made by this run", open: true }, ...more });
