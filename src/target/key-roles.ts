/**
 * Checks that a credential's prefix fits its role (items 40, 41, 125): swapped keys would look like a deployment that breaks a
 * dozen rules. Unknown prefixes are accepted, because a rule of `verify` judges them.
 */
import { SecretError } from "./secrets.ts";
import { ADMIN_ROLES } from "./target.ts";

/** `key`: of either kind. `token`: an administrator's, which is not a platform key. */
export type KeyWanted = "publishable" | "server" | "key" | "token";

const KINDS = [
  { prefix: "svc_pk_", is: "publishable", words: "a publishable key" },
  { prefix: "svc_sk_", is: "server", words: "a server key" },
  { prefix: "svc_sess_", is: "session", words: "a session token" },
] as const;

const EXPECTED: Readonly<Record<KeyWanted, string>> = {
  publishable: "a publishable key (svc_pk_...)",
  server: "a server key (svc_sk_...)",
  key: "a publishable or a server key",
  token: "an administrator's token of the identity provider",
};

export const wantedUnder = (role: string): KeyWanted => {
  if ((ADMIN_ROLES as readonly string[]).includes(role)) return "token";
  if (role.startsWith("publishable")) return "publishable";
  return role.startsWith("server") ? "server" : "key";
};

export const misplaced = (value: string, wanted: KeyWanted): { expected: string; came: string } | null => {
  const kind = KINDS.find(({ prefix }) => value.startsWith(prefix));
  if (kind === undefined || kind.is === wanted) return null;
  if (wanted === "key" && kind.is !== "session") return null;
  return { expected: EXPECTED[wanted], came: `${kind.words} (${kind.prefix}...)` };
};

/** Returns the value. Throws `SecretError` if it is of another kind. */
export const inItsPlace = (value: string, wanted: KeyWanted, what: string): string => {
  const wrong = misplaced(value, wanted);
  if (wrong === null) return value;
  throw new SecretError(what, wrong.expected, `it is ${wrong.came}: are the credentials of two roles exchanged?`);
};
