/**
 * Key management (B5; items 124-141): creations and changes against an order of checks written a second time, and what
 * must hold for any life of a key: limits are kept, vendor is acknowledged, the dead stay dead, narrowing is free.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { PRODUCTS, type Product, SCOPES, type Scope } from "../src/contract/routes.ts";
import {
  decideCreation,
  decideRevocation,
  decideUpdate,
  type KeyCreation,
  type KeyUpdate,
} from "../src/core/management.ts";
import type { KeyRecord, Organization } from "../src/core/records.ts";
import { keyArb, NOW_MS, ORIGINS, organizationArb, productsArb, scopesArb } from "./support/arbitraries.ts";
import { law } from "./support/law.ts";

const RUNS = { quick: 3_000, nightly: 200_000 };

/** Mostly words of the specification, sometimes one that is not. */
const withStranger = <T extends string>(known: fc.Arbitrary<T[]>): fc.Arbitrary<string[]> =>
  fc.oneof(
    { weight: 6, arbitrary: known },
    known.map((words) => [...words, "traffic"]),
  );
const originsArb = fc.subarray([...ORIGINS]);

const creationArb: fc.Arbitrary<KeyCreation> = fc.record(
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
const updateArb: fc.Arbitrary<KeyUpdate> = creationArb.map(({ kind: _, env: __, ...update }) => update);
/** Keys as management leaves them: vendor acknowledged, live publishable keys with origins. */
const managedKeyArb: fc.Arbitrary<KeyRecord> = keyArb.map((key) => ({
  ...key,
  vendor_acknowledged: key.vendor_acknowledged || key.scopes.includes("vendor"),
  allowed_origins: key.allowed_origins.length === 0 ? [ORIGINS[0]] : key.allowed_origins,
  status: "valid",
  org_id: "org_a",
}));
const orgArb: fc.Arbitrary<Organization> = organizationArb.map((org) => ({ ...org, id: "org_a" }));

/** B5 again, as rules over plain words; the key as it would become, and what it gains over what it could. */
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
const reach = (products: readonly string[]): string[] =>
  products.length === 0 ? ["chat", "editor", "tile"] : [...products];
const refusalIn = (decided: object): string | null => ("refuse" in decided ? (decided.refuse as string) : null);

law(
  "a creation is decided by the first failing check of B5",
  () =>
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
    }),
  RUNS,
);

law(
  "a change is decided by the first failing check of B5, and only what it adds is held against the tier",
  () =>
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
    }),
  RUNS,
);

law(
  "a change that narrows is allowed on any recognised plan",
  () =>
    fc.property(
      orgArb.filter(({ tier }) => tier !== null),
      managedKeyArb.chain((key) =>
        fc.record({
          key: fc.constant(key),
          scopes: fc.subarray(key.scopes),
          // An empty list would lift the restriction, which is no narrowing.
          products: fc.subarray(reach(key.products), { minLength: 1 }),
          allowed_origins: fc.subarray(key.allowed_origins, { minLength: 1 }),
        }),
      ),
      (org, { key, ...request }) => {
        expect(refusalIn(decideUpdate(org, key, request))).toBeNull();
      },
    ),
  RUNS,
);

law(
  "an admitted change does what it says, and nothing else",
  () =>
    fc.property(orgArb, managedKeyArb, updateArb, (org, key, request) => {
      const after = decideUpdate(org, key, request);
      if ("refuse" in after) return;
      const { acknowledge_vendor, ...fields } = request;
      expect(after).toEqual({
        ...key,
        ...fields,
        vendor_acknowledged: key.vendor_acknowledged || acknowledge_vendor === true,
      });
    }),
  RUNS,
);

law(
  "a created key is valid, belongs to the organization and has what was asked for",
  () =>
    fc.property(orgArb, creationArb, (org, request) => {
      const key = decideCreation(org, 0, request);
      if ("refuse" in key) return;
      expect(key).toMatchObject({ org_id: org.id, kind: request.kind, status: "valid", env: request.env ?? "live" });
      expect(key.scopes.every((scope) => SCOPES.includes(scope))).toBe(true);
      expect(key.products.every((product) => PRODUCTS.includes(product))).toBe(true);
      expect(key.scopes.includes("vendor") && !key.vendor_acknowledged).toBe(false);
    }),
  RUNS,
);

law(
  "whatever is created, changed and revoked in whatever order, the key limit holds and the dead stay dead",
  () => {
    const stepArb = fc.oneof(
      fc.record({ does: fc.constant("create" as const), request: creationArb }),
      fc.record({ does: fc.constant("update" as const), which: fc.nat({ max: 9 }), request: updateArb }),
      fc.record({ does: fc.constant("revoke" as const), which: fc.nat({ max: 9 }) }),
    );
    return fc.property(orgArb, fc.array(stepArb, { maxLength: 40 }), (org, steps) => {
      const keys: KeyRecord[] = [];
      const live = (): number => keys.filter(({ status }) => status === "valid").length;
      for (const step of steps) {
        if (step.does === "create") {
          const made = decideCreation(org, live(), step.request);
          if (!("refuse" in made)) keys.push({ ...made, id: `key_${keys.length}`, created_at: NOW_MS, last4: "0000" });
        } else {
          const at = step.which % Math.max(1, keys.length);
          const key = keys[at] ?? null;
          const decided = step.does === "update" ? decideUpdate(org, key, step.request) : decideRevocation(org, key);
          if (key === null || key.status !== "valid") expect(decided).toEqual({ refuse: "not_found" });
          if (!("refuse" in decided)) keys[at] = decided;
        }
        expect(live()).toBeLessThanOrEqual(org.key_limit);
      }
    });
  },
  { quick: 500, nightly: 50_000 },
);

law(
  "a foreign or unknown key is not found, whatever is asked",
  () =>
    fc.property(orgArb, managedKeyArb, updateArb, (org, key, request) => {
      for (const other of [null, { ...key, org_id: "org_b" }]) {
        expect(decideUpdate(org, other, request)).toEqual({ refuse: "not_found" });
        expect(decideRevocation(org, other)).toEqual({ refuse: "not_found" });
      }
    }),
  { quick: 300, nightly: 10_000 },
);

law(
  "a key can be revoked on any plan, and then never again",
  () =>
    fc.property(orgArb, managedKeyArb, (org, key) => {
      const revoked = decideRevocation(org, key);
      expect(revoked).toEqual({ ...key, status: "revoked" });
      expect(decideRevocation(org, revoked as KeyRecord)).toEqual({ refuse: "not_found" });
    }),
  { quick: 300, nightly: 10_000 },
);
