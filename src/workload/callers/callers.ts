/** The callers of a load: the target's tenants, or without tenants its `credentials` roles. Computed once per view. */
import { type Product, type RouteName, routeOf, type Scope } from "../../contract/routes.ts";
import { type CredentialRef, type SessionWanted, type Step, type StepWish, stepOf } from "../step.ts";
import { type CallerName, callerOf, oncePerView, type TargetView, type TenantInView } from "./target-view.ts";

type KeyKind = "publishable" | "server";

/** A tenant or a role with a key of one kind. `org` is its own name if the target file states none. */
export type Caller = Omit<TenantInView, KeyKind> & { readonly name: CallerName; readonly kind: KeyKind };

const FULL_ROLES: Readonly<Record<KeyKind, readonly string[]>> = {
  server: ["server"],
  publishable: ["publishable", "publishable_other_org", "publishable_basemap"],
};

export const roleCaller = (view: TargetView, role: string, kind: KeyKind): Caller | null => {
  const found = view.roles[role];
  // The exchange refuses a publishable key without an origin (item 71).
  if (found === undefined || (kind === "publishable" && !found.hasOrigin)) return null;
  const name: CallerName = `role:${role}`;
  const { org, powers } = callerOf(view, name, kind);
  return { name, org, kind, tier: powers.tier, allowance: found.allowance, used: found.used };
};

const fromTenants = (view: TargetView, kind: KeyKind): Caller[] =>
  view.tenants
    .filter((tenant) => tenant[kind])
    .map(({ publishable: _publishable, server: _server, ...more }) => ({ ...more, name: `tenant:${more.org}`, kind }));

const fromRoles = (view: TargetView, kind: KeyKind): Caller[] =>
  FULL_ROLES[kind].flatMap((role) => roleCaller(view, role, kind) ?? []);

export const publishableCallers = oncePerView((view: TargetView): readonly Caller[] => {
  const tenants = fromTenants(view, "publishable");
  return tenants.length > 0 ? tenants : fromRoles(view, "publishable");
});

// Free admits product `tile` alone and has no server keys (items 48, 75), so each of its mints is charged.
const notFree = ({ tier }: Caller): boolean => tier !== "Free";

export const minting = oncePerView((view: TargetView) => publishableCallers(view).filter(notFree));

/** Callers that can call runtime routes, with a server key or with sessions of a publishable key. */
export const runtimeCallers = oncePerView((view: TargetView): readonly Caller[] => {
  for (const kind of ["server", "publishable"] as const) {
    const tenants = fromTenants(view, kind).filter(notFree);
    if (tenants.length > 0) return tenants;
  }
  const callers: Caller[] = [];
  for (const caller of [...fromRoles(view, "server"), ...fromRoles(view, "publishable")].filter(notFree)) {
    // A second key of the same organization would share its caps and need a minted session.
    if (!callers.some(({ org }) => org === caller.org)) callers.push(caller);
  }
  return callers;
});

/** Reports whether two callers certainly belong to different organizations. */
export const areOfTwoOrganizations = (one: Caller, other: Caller): boolean => {
  if (one.org === other.org) return false;
  const isNamed = ({ org }: Caller): boolean => !org.startsWith("role:");
  if (isNamed(one) && isNamed(other)) return true;
  const names = [one.name, other.name];
  return names.includes("role:publishable") && names.includes("role:publishable_other_org");
};

const PRODUCT_OF: Readonly<Partial<Record<Scope, Product>>> = { ai: "chat", design: "editor", maps: "tile" };

/** The product whose session may call a route (item 82, A16). */
const productFor = (route: RouteName): Product => PRODUCT_OF[routeOf(route).scope ?? "ai"] ?? "chat";

/** One object for all calls of a caller, so that it can be the key of a cache. */
const serverKeys = new WeakMap<Caller, CredentialRef>();

/** A runtime call of this caller, with its server key, or with a session and a listed origin. */
export const callAs = (view: TargetView, n: number, caller: Caller, wish: Omit<StepWish, "credential">): Step => {
  const of = caller.name;
  if (caller.kind === "server") {
    const credential = serverKeys.get(caller) ?? { as: "server", of };
    serverKeys.set(caller, credential);
    return stepOf(view, n, { ...wish, credential });
  }
  const credential = { as: "session", of, product: productFor(wish.route) } as const;
  return stepOf(view, n, { origin: "listed", ...wish, credential });
};

export const sessionsOf = (callers: readonly Caller[], routes: readonly RouteName[]): SessionWanted[] => {
  const products = [...new Set(routes.map(productFor))];
  return callers.flatMap(({ kind, name }) =>
    kind === "server" ? [] : products.map((product) => ({ of: name, product })),
  );
};

/** What to add to a target file that has none of these callers. */
const missing = (callersOf: (view: TargetView) => readonly Caller[], what: string) => (view: TargetView) =>
  callersOf(view).length > 0 ? [] : [what];

export const callersMissing = missing(
  runtimeCallers,
  "somebody who can call: a tenant that is not on Free, or the role `server` or `publishable` (with its `origin`) under `credentials`",
);
export const mintingMissing = missing(
  minting,
  "a publishable key with its `origin`: of a tenant that is not on Free, or the role `publishable`",
);
