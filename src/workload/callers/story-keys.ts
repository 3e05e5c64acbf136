/** Whose keys a story needs: only those are read, so that a scenario of tenants needs no role's secret. */
import type { CredentialRef } from "../step.ts";
import type { Story } from "../story.ts";
import type { CallerName, TargetView } from "./target-view.ts";

/** The keys of a target file, as far as a caller has to find them; each value may be a reference. */
export type StatedKeys = {
  readonly tenants?: readonly {
    readonly org: string;
    readonly publishable?: { readonly key: string; readonly origin?: string };
    readonly server?: { readonly key: string };
  }[];
  /** `{ key, origin? }` or, for an administrator, `{ token }` by role. */
  readonly credentials?: object;
};

type StatedCredential = { readonly key: string; readonly origin?: string } | { readonly token: string };

type KeyOfCaller = {
  readonly ref: CredentialRef & { readonly of: CallerName };
  /** As the file has it: the secret, or `env:…`, `file:…`, `exec:…`. */
  readonly value: string;
  readonly origin?: string;
  /** Where in the file, for a message. */
  readonly what: string;
};

const keysOf = ({ tenants = [], credentials = {} }: StatedKeys): KeyOfCaller[] => {
  const keys: KeyOfCaller[] = [];
  const add = (
    as: "publishable" | "server" | "admin",
    of: CallerName,
    value: string,
    what: string,
    origin?: string,
  ): void => {
    keys.push({ ref: { as, of }, value, what, ...(origin === undefined ? {} : { origin }) });
  };
  for (const { org, publishable, server } of tenants) {
    const [of, what] = [`tenant:${org}` as const, `tenants (${org})`];
    if (publishable !== undefined) {
      add("publishable", of, publishable.key, `${what}.publishable.key`, publishable.origin);
    }
    if (server !== undefined) add("server", of, server.key, `${what}.server.key`);
  }
  for (const [role, credential] of Object.entries(credentials) as [string, StatedCredential][]) {
    const [of, what] = [`role:${role}` as const, `credentials.${role}`];
    if ("token" in credential) add("admin", of, credential.token, `${what}.token`);
    else {
      const as = role.startsWith("server") ? "server" : "publishable";
      add(as, of, credential.key, `${what}.key`, credential.origin);
    }
  }
  return keys;
};

/** Calls looked at to see which roles a story uses; its rounds are shorter by far. */
const LOOKED_AT = 2000;

/** The keys of a file that a story may use: of all tenants where tenants call, of the roles that its calls name. */
export const keysFor = (story: Story, seed: number, view: TargetView, file: StatedKeys): KeyOfCaller[] => {
  const roles = new Set<string>();
  let tenants = false;
  for (let i = 0; i < LOOKED_AT; i++) {
    for (const { credential } of story.plan(seed, i, view)) {
      if (!("of" in credential)) continue;
      if (credential.of.startsWith("tenant:")) tenants = true;
      else roles.add(credential.of);
    }
  }
  return keysOf(file).filter(({ ref }) => (ref.of.startsWith("tenant:") ? tenants : roles.has(ref.of)));
};

/** The origin that each caller may come from, by its name. */
export const originsOf = (keys: readonly KeyOfCaller[]): Record<string, string> =>
  Object.fromEntries(keys.flatMap(({ ref, origin }) => (origin === undefined ? [] : [[ref.of, origin]])));
