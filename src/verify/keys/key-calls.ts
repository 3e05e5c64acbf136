/**
 * The calls of key management (section 4.4) and those with a key that it made. Bodies are "not shown" in the specification:
 * these are the field names of spec-checklist.md item 50.
 */
import type { AdminRole } from "../../target/target.ts";
import { role, type TestCall } from "../sending/test-call.ts";

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

/** So that an operator recognises a key that could not be removed. */
export const KEY_NAME = "floodgate-verify";
export const KEY_ORIGIN = "https://floodgate-verify.example";

export type MadeKey = { id: string; secret: string; admin: AdminRole; variable: string };

export const adminCredential = (admin: AdminRole) => ({ as: "admin", of: role(admin) }) as const;

export const createCall = (admin: AdminRole, body: KeyBody, more: Partial<TestCall> = {}): TestCall => ({
  route: "keys.create",
  credential: adminCredential(admin),
  origin: "none",
  body: { text: JSON.stringify({ name: KEY_NAME, ...body }), is: "ok" },
  ...more,
});

const pathOfKey = (id: string): string => `/shared-api/api-keys/${encodeURIComponent(id)}`;

export const updateCall = (
  admin: AdminRole,
  id: string,
  body: Partial<KeyBody>,
  more: Partial<TestCall> = {},
): TestCall => ({
  route: "keys.update",
  credential: adminCredential(admin),
  origin: "none",
  path: pathOfKey(id),
  body: { text: JSON.stringify(body), is: "ok" },
  ...more,
});

export const deleteCall = (admin: AdminRole, id: string, more: Partial<TestCall> = {}): TestCall => ({
  route: "keys.delete",
  credential: adminCredential(admin),
  origin: "none",
  path: pathOfKey(id),
  ...more,
});

/** The created key, used as such: at the exchange or at runtime. */
export const withKey = (key: MadeKey, testCall: Omit<TestCall, "credential" | "secret">): TestCall => {
  const as = key.secret.startsWith("svc_sk_") ? "server" : "publishable";
  return {
    ...testCall,
    credential: { as, of: role(key.admin) },
    secret: { value: key.secret, variable: key.variable },
  };
};

/** The exchange with a created publishable key, from the origin that it was created with. */
export const exchangeWith = (
  key: MadeKey,
  product: "chat" | "editor" | "tile",
  more: Partial<TestCall> = {},
): TestCall =>
  withKey(key, {
    route: "sdk.sessions",
    origin: "listed",
    originValue: KEY_ORIGIN,
    product,
    what: "a key made by this run",
    ...more,
  });
