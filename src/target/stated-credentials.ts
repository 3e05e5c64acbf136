/** The keys and tokens that a target file states, each with its place, and which kind of key belongs there. */
import type { CallerName } from "../workload/callers/target-view.ts";
import { ADMIN_ROLES } from "./roles.ts";
import { isReference, SecretError, type Secrets } from "./secrets.ts";
import type { Target } from "./target.ts";

const WORDS = {
  publishable: "a publishable key (svc_pk_...)",
  server: "a server key (svc_sk_...)",
  session: "a session token (svc_sess_...)",
  key: "a publishable or a server key",
  token: "an administrator's token of the identity provider",
};

const KIND_OF_PREFIX = { svc_pk_: "publishable", svc_sk_: "server", svc_sess_: "session" } as const;

export type StatedCredential = {
  readonly of: CallerName;
  /** Its place in the file, such as `credentials.server` and `tenants[0].publishable`. */
  readonly where: string;
  /** The kind that belongs there: `key` for either, `token` for an administrator's. */
  readonly kind: Exclude<keyof typeof WORDS, "session">;
  /** The value, or a reference to it. */
  readonly ref: string;
  readonly origin?: string;
};

const kindUnder = (role: string): StatedCredential["kind"] => {
  if ((ADMIN_ROLES as readonly string[]).includes(role)) return "token";
  return role.startsWith("publishable") ? "publishable" : role.startsWith("server") ? "server" : "key";
};

export const credentialsOf = ({ credentials = {}, tenants = [] }: Target): StatedCredential[] => [
  ...Object.entries(credentials).map(([role, one]): StatedCredential => {
    const place = { of: `role:${role}`, where: `credentials.${role}`, kind: kindUnder(role) } as const;
    return "token" in one ? { ...place, ref: one.token } : { ...place, ref: one.key, origin: one.origin };
  }),
  ...tenants.flatMap(({ org, ...keys }, at) =>
    (["publishable", "server"] as const).flatMap((kind): StatedCredential[] => {
      const { key: ref, origin }: { key?: string; origin?: string } = keys[kind] ?? {};
      return ref === undefined ? [] : [{ of: `tenant:${org}`, where: `tenants[${at}].${kind}`, kind, ref, origin }];
    }),
  ),
];

/**
 * What was expected and what came, if a value is of another kind than its place; else `null`. Swapped keys would look
 * like a deployment that breaks a dozen rules (items 40, 41, 125). Unknown prefixes are left to a rule of `verify`.
 */
const misplaced = (value: string, kind: StatedCredential["kind"]): { expected: string; came: string } | null => {
  const [, found] = Object.entries(KIND_OF_PREFIX).find(([prefix]) => value.startsWith(prefix)) ?? [];
  if (found === undefined || found === kind || (kind === "key" && found !== "session")) return null;
  return { expected: WORDS[kind], came: WORDS[found] };
};

/** A variable as a shell has it, or its name alone; sent as a key, it would be answered 401 by every route. */
const VARIABLE = /^(?:env:)?\$\{?(\w+)\}?$|^([A-Z]+(?:_[A-Z0-9]+)+)$/;

/** Problems of keys that the file contains itself. References are checked when they are read. */
export const misplacedKeys = (target: Target): string[] =>
  credentialsOf(target).flatMap(({ where, kind, ref }) => {
    const wrong = isReference(ref) ? null : misplaced(ref, kind);
    const field = `${where}.${kind === "token" ? "token" : "key"}`;
    const [, named, bare = named] = VARIABLE.exec(ref) ?? [];
    if (bare !== undefined) return [`${field}: expected "env:${bare}" for the environment variable; got "${ref}"`];
    return wrong === null ? [] : [`${field}: expected ${wrong.expected}; got ${wrong.came}`];
  });

/**
 * Says what in a value is not part of the credential, such as what an env file, a copied header or a talkative command adds;
 * `null` for nothing. Such a value would be answered 401 everywhere, or could not be sent.
 */
const notItsOwn = (value: string): string | null => {
  const lines = value.trim().split(/\r\n|\r|\n/).length;
  if (lines > 1) return `it has ${lines} lines: print or write nothing but the value`;
  if (/^(["'`]).*\1$/.test(value))
    return "it stands in quotation marks: leave them out (an env file of Docker keeps them)";
  if (/^Bearer\s/i.test(value)) return "it begins with Bearer: leave that word out, which is written before it";
  if (/[^\x21-\x7e]/.test(value))
    return "it holds a blank or another sign that no key has: was more copied than the key?";
  return null;
};

/** Reads a key or token. Throws `SecretError`, also if it is of another kind than its place. */
export const readStated = async ({ where, kind, ref }: StatedCredential, secrets: Secrets): Promise<string> => {
  const value = await secrets.read(ref, where);
  const strange = notItsOwn(value);
  if (strange !== null) throw new SecretError(where, `${WORDS[kind]} alone`, strange);
  const wrong = misplaced(value, kind);
  if (wrong === null) return value;
  throw new SecretError(where, wrong.expected, `it is ${wrong.came}: are the credentials of two roles exchanged?`);
};

export class CredentialMissingError extends Error {
  constructor(of: string, expected: string) {
    super(`${of} is needed by the scenario, but the target file has no ${expected} for it`);
    this.name = "CredentialMissingError";
  }
}

/** A tenant has a key of each kind, so its kind is a part of the name; a role has one credential. */
export const nameOfKey = (of: CallerName, kind: string): string => (of.startsWith("tenant:") ? `${of} ${kind}` : of);

/** Finds the credentials of callers. A role has one credential, whatever its kind. Throws `CredentialMissingError`. */
export const credentialFinder = (target: Target) => {
  const byName = new Map(credentialsOf(target).map((one) => [nameOfKey(one.of, one.kind), one]));
  return {
    find: (of: CallerName, as: "publishable" | "server" | "admin"): StatedCredential => {
      const found = byName.get(nameOfKey(of, as));
      if (found !== undefined && (found.kind === "token") === (as === "admin")) return found;
      const what = of.startsWith("tenant:") ? `${as} key` : as === "admin" ? "token" : "key";
      throw new CredentialMissingError(of, what);
    },
    originOf: (of: CallerName): string | undefined => byName.get(nameOfKey(of, "publishable"))?.origin,
  };
};
