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

const keysOf = ({ tenants = [], credentials = {} }: StatedKeys): KeyOfCaller[] => [
  ...tenants.flatMap(({ org, publishable, server }) => {
    const keys = { publishable, server: server && { ...server, origin: undefined } };
    return (["publishable", "server"] as const).flatMap((as): KeyOfCaller[] => {
      const { key, origin } = keys[as] ?? {};
      const ref = { as, of: `tenant:${org}` } as const;
      return key === undefined ? [] : [{ ref, value: key, what: `tenants (${org}).${as}.key`, origin }];
    });
  }),
  ...(Object.entries(credentials) as [string, StatedCredential][]).map(([role, credential]): KeyOfCaller => {
    const of = `role:${role}` as const;
    const what = `credentials.${role}`;
    if ("token" in credential) return { ref: { as: "admin", of }, value: credential.token, what: `${what}.token` };
    const as = role.startsWith("server") ? "server" : "publishable";
    return { ref: { as, of }, value: credential.key, what: `${what}.key`, origin: credential.origin };
  }),
];

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
