/** What a story may know of a deployment: organizations, roles and what they may do, never a secret; and its keys. */
import type { CallFacts } from "../../contract/call-facts.ts";
import type { Scope } from "../../contract/routes.ts";
import type { CredentialRef } from "../step.ts";
import type { Story } from "../story.ts";

export type Tier = CallFacts["tier"];

type AccountInView = {
  readonly tier?: Tier;
  readonly allowance?: number;
  /** Map loads used before the stage, as read from the deployment; absent, which is not zero, if unreadable. */
  readonly used?: number;
};

/** One organization of the target file's `tenants`; its keys are full-scope and unrestricted, as the roles' are. */
export type TenantInView = AccountInView & {
  readonly org: string;
  /** Whether there is a publishable key with an origin, and a server key. */
  readonly publishable: boolean;
  readonly server: boolean;
  /** Its own in-flight cap, if it differs from the deployment's. */
  readonly inFlightCap?: number;
  /** How often it calls, relative to other tenants; 1 if only others state a weight. */
  readonly weight?: number;
};

type RoleInView = AccountInView & { readonly org?: string; readonly hasOrigin: boolean };

type Limit = "replicas" | "slots" | "service_ms" | "global_in_flight" | "org_in_flight" | "rate_per_s" | "burst";
export type LimitsInView = Readonly<Partial<Record<Limit, number>>>;

/** Calls per second admitted in a ramp. `by`: the outcome that ended the ramp; `null`: none, so a lower bound. */
export type RateFound = { readonly perS: number; readonly by: string | null };

export type TargetView = {
  readonly tenants: readonly TenantInView[];
  readonly roles: Readonly<Record<string, RoleInView>>;
  readonly limits: LimitsInView;
  /** What ramps of `find-knee` (streams) and `find-read-knee` (catalog reads) found on this target. */
  readonly capacity?: { readonly chat?: RateFound; readonly reads?: RateFound };
  readonly budget?: { readonly mapLoads?: number; readonly analyses?: number };
  /** Whether the target file states a `tile_url`; the specification has no route for tiles (item 128). */
  readonly tiles?: boolean;
  /** Whether the deployment offers `POST /maps/loads`, an extension of the reference platform (item 128). */
  readonly mapLoads?: boolean;
  readonly permits: { readonly writes: boolean; readonly quotaBurn: boolean };
};

/** What a key may do, by its role (`target/README.md`). Absent: unknown. */
type KeyPowers = Readonly<Pick<CallFacts, "tier" | "scopes" | "products" | "ip" | "state">> & {
  readonly kind: "publishable" | "server";
};

const FULL: readonly Scope[] = ["ai", "design", "maps"];
const publishable = (more: Partial<KeyPowers> = {}): KeyPowers => ({
  ...{ kind: "publishable", tier: "Pro", scopes: FULL, products: [] },
  ...more,
});
const server = (more: Partial<KeyPowers> = {}): KeyPowers => publishable({ ...more, kind: "server" });

export const ROLE_POWERS: Readonly<Record<string, KeyPowers>> = {
  publishable: publishable(),
  server: server(),
  publishable_other_org: publishable(),
  publishable_no_ai: publishable({ scopes: ["design", "maps"] }),
  publishable_tile_only: publishable({ products: ["tile"] }),
  publishable_downgraded: publishable({ tier: "Free" }),
  publishable_exhausted: publishable({ tier: "Free" }),
  publishable_hard_stop: publishable(),
  publishable_expendable: publishable({ tier: "Free" }),
  publishable_expendable_paid: publishable(),
  publishable_basemap: publishable(),
  server_no_design: server({ scopes: ["ai", "maps"] }),
  server_foreign_ip: server({ ip: "foreign" }),
  server_downgraded: server({ tier: "Free" }),
  revoked: publishable({ state: "revoked" }),
  expired: publishable({ state: "expired" }),
};

export type CallerName = `role:${string}` | `tenant:${string}`;

/** Makes a function of a view that computes its result once and keeps it as long as the view exists. */
export const oncePerView = <T>(compute: (view: TargetView) => T): ((view: TargetView) => T) => {
  const kept = new WeakMap<TargetView, { value: T }>();
  return (view) => {
    const found = kept.get(view) ?? { value: compute(view) };
    kept.set(view, found);
    return found.value;
  };
};

const tenantsByOrg = oncePerView((view) => new Map(view.tenants.map((tenant) => [tenant.org, tenant])));

type CallerFound = { readonly org: string; readonly powers: KeyPowers };

const findCaller = (view: TargetView, name: CallerName, kind: KeyPowers["kind"]): CallerFound => {
  const [, tenant] = /^tenant:(.*)$/s.exec(name) ?? [];
  const role = name.slice("role:".length);
  const stated = tenant === undefined ? view.roles[role] : tenantsByOrg(view).get(tenant);
  const usual: KeyPowers =
    tenant === undefined ? (ROLE_POWERS[role] ?? { kind }) : { kind, scopes: FULL, products: [] };
  const powers = stated?.tier === undefined ? usual : { ...usual, tier: stated.tier };
  return { org: tenant ?? stated?.org ?? name, powers };
};

/** Cached, because each call looks one up. */
const callersFound = oncePerView((_view) => ({
  publishable: new Map<CallerName, CallerFound>(),
  server: new Map<CallerName, CallerFound>(),
}));

/** A caller's organization and powers. A role without a stated organization counts as one of its own. */
export const callerOf = (view: TargetView, name: CallerName, kind: KeyPowers["kind"]): CallerFound => {
  const known = callersFound(view)[kind];
  const found = known.get(name) ?? findCaller(view, name, kind);
  known.set(name, found);
  return found;
};

/** The part of a target file that a view is made of. Each key is a secret or a reference to one. */
export type StatedTarget = {
  readonly tile_url?: string;
  readonly limits?: LimitsInView;
  readonly permits?: { readonly writes?: boolean; readonly quota_burn?: boolean };
  readonly budget?: { readonly map_loads?: number; readonly analyses?: number };
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
