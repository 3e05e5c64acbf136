/** Makes of a target file the view without secrets for stories (target-view.ts), and the keys that a story needs. */
import type { CredentialRef } from "../step.ts";
import type { Story } from "../story.ts";
import type { CallerName, LimitsInView, RoleInView, TargetView, TenantInView, Tier } from "./target-view.ts";

/** The part of a target file that a view is made of. Each key is a secret or a reference to one. */
export type StatedTarget = {
  readonly tile_url?: string;
  readonly limits?: LimitsInView;
  readonly permits?: { readonly writes?: boolean; readonly quota_burn?: boolean };
  readonly budget?: { readonly map_loads?: number; readonly analyses?: number };
  readonly control?: { readonly limiter?: string | null };
  readonly observers?: { readonly ledger?: string };
  readonly tenants?: readonly {
    readonly org: string;
    readonly tier?: Exclude<Tier, null>;
    readonly limit?: number;
    readonly weight?: number;
    readonly publishable?: { readonly key: string; readonly origin?: string };
    readonly server?: { readonly key: string };
  }[];
  /** By role: `{ key, origin? }`, or `{ token }` for an administrator. */
  readonly credentials?: object;
};

type StatedRole = { org?: string; tier?: Exclude<Tier, null>; limit?: number; origin?: string };

/** A deployment with tiles at the reference's path has its extensions (item 128), and so its map loads as well. */
const TILES_OF_THE_REFERENCE = /\/maps\/tiles\/\{z\}\/\{x\}\/\{y\}$/;

/** Readings from the deployment that no file states: map loads used so far, own in-flight caps. */
export type TenantReadings = Readonly<Record<string, { used?: number; inFlightCap?: number }>>;

export const viewOf = (target: StatedTarget, readings: TenantReadings = {}): TargetView => {
  const tenants = (target.tenants ?? []).map(
    ({ org, tier, limit, weight, publishable, server }): TenantInView => ({
      org,
      tier,
      allowance: limit,
      ...readings[org],
      weight,
      publishable: publishable?.origin !== undefined,
      server: server !== undefined,
    }),
  );
  const roles: Record<string, RoleInView> = {};
  for (const [role, stated] of Object.entries(target.credentials ?? {}) as [string, StatedRole][]) {
    const { org, tier, limit, origin } = stated;
    const { inFlightCap: _ofTenants, ...read } = readings[org ?? ""] ?? {};
    roles[role] = { ...read, org, tier, allowance: limit, hasOrigin: origin !== undefined };
  }
  const { map_loads: mapLoads, analyses } = target.budget ?? {};
  return {
    tenants,
    roles,
    limits: target.limits ?? {},
    budget: { mapLoads, analyses },
    tiles: target.tile_url !== undefined,
    mapLoads: TILES_OF_THE_REFERENCE.test(target.tile_url ?? ""),
    ledger: typeof target.control?.limiter === "string" || target.observers?.ledger !== undefined,
    permits: { writes: target.permits?.writes === true, quotaBurn: target.permits?.quota_burn === true },
  };
};

type StatedCredential = { readonly key: string; readonly origin?: string } | { readonly token: string };

type KeyOfCaller = {
  readonly ref: CredentialRef & { readonly of: CallerName };
  /** The key as the file has it: the secret, or `env:…`, `file:…`, `exec:…`. */
  readonly value: string;
  readonly origin?: string;
  readonly what: string;
};

const keysOf = ({ tenants = [], credentials = {} }: StatedTarget): KeyOfCaller[] => [
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

/** The calls inspected to find the roles that a story uses; the rounds of every story are far shorter. */
const LOOKED_AT = 2000;

/** The keys that a story uses: those of its roles, and of all tenants if any tenant calls. Other keys are not read. */
export const keysFor = (story: Story, seed: number, view: TargetView, file: StatedTarget): KeyOfCaller[] => {
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

export const originsOf = (keys: readonly KeyOfCaller[]): Record<string, string> =>
  Object.fromEntries(keys.flatMap(({ ref, origin }) => (origin === undefined ? [] : [[ref.of, origin]])));
