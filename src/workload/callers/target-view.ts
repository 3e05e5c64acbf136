/** What a story may know of a deployment: organizations, roles and what they may do, never a secret. */
import type { CallFacts } from "../../contract/call-facts.ts";
import type { Scope } from "../../contract/routes.ts";

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

export type RoleInView = AccountInView & { readonly org?: string; readonly hasOrigin: boolean };

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
  /** Whether what the store charges can be read. */
  readonly ledger?: boolean;
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
