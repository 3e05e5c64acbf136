/**
 * Key management (B5) as a function of what decides it, against an independent copy of its order of checks: for the test,
 * and for mutants (mutant-laws.ts).
 */
import fc from "fast-check";
import { expect } from "vitest";
import type { Product, Scope } from "../../src/contract/routes.ts";
import type { KeyRecord, Organization } from "../../src/core/call.ts";
import type { KeyCreation, KeyUpdate } from "../../src/core/management.ts";
import type { KeyDecisions } from "../../src/platform/keys/store.ts";
import { keyArb, NOW_MS, ORIGINS, organizationArb, productsArb, scopesArb } from "../model/arbitraries.ts";

/** Mostly names of the specification, sometimes with an unknown one. */
const withStranger = <T extends string>(known: fc.Arbitrary<T[]>): fc.Arbitrary<string[]> =>
  fc.oneof(
    { weight: 6, arbitrary: known },
    known.map((words) => [...words, "traffic"]),
  );
const originsArb = fc.subarray([...ORIGINS]);

export const creationArb: fc.Arbitrary<KeyCreation> = fc.record(
  {
    kind: fc.constantFrom("publishable" as const, "server" as const),
    env: fc.constantFrom("live" as const, "test" as const),
    name: fc.string({ maxLength: 5 }),
    scopes: withStranger(fc.oneof(scopesArb, fc.constant<Scope[]>(["maps"]))),
    products: withStranger(fc.oneof(productsArb, fc.constant<Product[]>(["tile"]))),
    allowed_origins: originsArb,
    allowed_ips: fc.constant(["10.0.0.0/8"]),
    acknowledge_vendor: fc.boolean(),
    expires_at: fc.constantFrom(null, NOW_MS + 1),
  },
  { requiredKeys: ["kind"] },
);
export const updateArb: fc.Arbitrary<KeyUpdate> = creationArb.map(({ kind: _, env: __, ...update }) => update);
/** Keys that management can have made: vendor acknowledged, live publishable keys with origins. */
export const managedKeyArb: fc.Arbitrary<KeyRecord> = keyArb.map((key) => ({
  ...key,
  vendor_acknowledged: key.vendor_acknowledged || key.scopes.includes("vendor"),
  allowed_origins: key.allowed_origins.length === 0 ? [ORIGINS[0]] : key.allowed_origins,
  status: "valid",
  org_id: "org_a",
}));
export const orgArb: fc.Arbitrary<Organization> = organizationArb.map((org) => ({ ...org, id: "org_a" }));

/** An independent copy of B5: `Draft` is the key as it would become, `Gain` what it could not do before. */
type Draft = {
  kind: string;
  env: string;
  scopes: string[];
  products: string[];
  origins: number;
  acknowledged: boolean;
};
type Gain = { scopes: string[]; products: string[] };
const demanded = (tier: string | null, draft: Draft, gain: Gain, creating: boolean, full: boolean): string | null => {
  const rules: [boolean, string][] = [
    [tier !== "Free" && tier !== "Pro", "plan_required"],
    [draft.scopes.some((scope) => !["ai", "design", "maps", "vendor"].includes(scope)), "unknown_scope"],
    [draft.products.some((name) => !["chat", "editor", "viewer", "tile"].includes(name)), "unknown_product"],
    [draft.kind === "publishable" && draft.env === "live" && draft.origins === 0, "publishable_live_requires_origins"],
    [creating && tier === "Free" && draft.kind === "server", "free_plan_publishable_only"],
    [draft.scopes.includes("vendor") && !draft.acknowledged, "vendor_scope_requires_acknowledgement"],
    [tier === "Free" && gain.scopes.some((scope) => scope !== "maps"), "tier_capability_not_allowed"],
    [tier === "Free" && gain.products.some((product) => product !== "tile"), "tier_capability_not_allowed"],
    [creating && full, "key_limit_reached"],
  ];
  return rules.find(([applies]) => applies)?.[1] ?? null;
};
export const reach = (products: readonly string[]): string[] =>
  products.length === 0 ? ["chat", "editor", "tile"] : [...products];
export const refusalIn = (decided: object): string | null => ("refuse" in decided ? (decided.refuse as string) : null);

export const creationIsDecidedByB5 = ({ decideCreation }: Pick<KeyDecisions, "decideCreation">) =>
  fc.property(orgArb, fc.nat({ max: 5 }), creationArb, (org, live, request) => {
    const { scopes = [], products = [] } = request;
    const draft: Draft = {
      kind: request.kind,
      env: request.env ?? "live",
      scopes,
      products,
      origins: request.allowed_origins?.length ?? 0,
      acknowledged: request.acknowledge_vendor === true,
    };
    const expected = demanded(org.tier, draft, { scopes, products }, true, live >= org.key_limit);
    expect(refusalIn(decideCreation(org, live, request))).toBe(expected);
  });

export const changeIsDecidedByB5 = ({ decideUpdate }: Pick<KeyDecisions, "decideUpdate">) =>
  fc.property(orgArb, managedKeyArb, updateArb, (org, key, request) => {
    const scopes = request.scopes ?? key.scopes;
    const products = request.products ?? key.products;
    const draft: Draft = {
      kind: key.kind,
      env: key.env,
      scopes,
      products,
      origins: (request.allowed_origins ?? key.allowed_origins).length,
      acknowledged: key.vendor_acknowledged || request.acknowledge_vendor === true,
    };
    const gain = {
      scopes: scopes.filter((scope) => !(key.scopes as string[]).includes(scope)),
      products: reach(products).filter((product) => !reach(key.products).includes(product)),
    };
    expect(refusalIn(decideUpdate(org, key, request))).toBe(demanded(org.tier, draft, gain, false, false));
  });

export const foreignKeyIsNotFound = ({ decideUpdate, decideRevocation }: KeyDecisions) =>
  fc.property(orgArb, managedKeyArb, updateArb, (org, key, request) => {
    for (const other of [null, { ...key, org_id: "org_b" }]) {
      expect(decideUpdate(org, other, request)).toEqual({ refuse: "not_found" });
      expect(decideRevocation(org, other)).toEqual({ refuse: "not_found" });
    }
  });
