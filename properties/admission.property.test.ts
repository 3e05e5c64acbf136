/**
 * P3 and P4: what a key admits is what is stored in it, cut with what the organization's tier admits now. So it grows with
 * either, shrinks with either, does not care how a list is written, and a downgrade only takes away.
 */
import fc from "fast-check";
import { expect } from "vitest";
import { PRODUCTS, type Product, SCOPES, type Scope } from "../src/contract/routes.ts";
import type { KeyRecord, KeySnapshot, Tier } from "../src/core/call.ts";
import { productRefusal, scopeRefusal } from "../src/core/meters.ts";
import { HEALTHY_ORDERS } from "../src/core/order.ts";
import { mintsStoredAndTier } from "./laws/decision-laws.ts";
import { law } from "./laws/law.ts";
import { keyArb, productArb, scopeArb, snapshotArb } from "./model/arbitraries.ts";

const RUNS = { quick: 1_000, nightly: 100_000 };

/** Lowest first; each admits what the one before it does. */
const TIERS: readonly (Tier | null)[] = [null, "Free", "Pro"];
const FULL: Pick<KeyRecord, "scopes" | "products"> = { scopes: [...SCOPES], products: [...PRODUCTS] };

const onTier = ({ key, org }: KeySnapshot, tier: Tier | null): KeySnapshot => ({ key, org: { ...org, tier } });
const minted = (snapshot: KeySnapshot): Product[] =>
  PRODUCTS.filter((product) => productRefusal(snapshot, product) === null);
/** What a credential of this key can do at runtime: (scope, product) pairs, the product `null` for a server key. */
const usable = (snapshot: KeySnapshot): string[] =>
  SCOPES.flatMap((scope) =>
    [null, ...PRODUCTS]
      .filter((product) => scopeRefusal(snapshot, scope, product) === null)
      .map((product) => `${scope} ${product}`),
  );
const within = (part: unknown[], whole: unknown[]): void =>
  expect(part.filter((item) => !whole.includes(item))).toEqual([]);

/** Item 57, A7, written a second time: an empty list restricts nothing but the viewer. */
const stored = (key: KeyRecord): Product[] =>
  PRODUCTS.filter((product) => (key.products.length === 0 ? product !== "viewer" : key.products.includes(product)));
const NEEDS: Readonly<Record<Product, Scope | null>> = { chat: "ai", editor: "design", viewer: null, tile: "maps" };

law(
  "P3 admission is exactly the intersection of what the key stores and what the tier admits (item 74)",
  () =>
    fc.property(snapshotArb, ({ key, org }) => {
      const byTier = minted({ key: { ...key, ...FULL }, org });
      const byKey = stored(key).filter((product) => {
        const scope = NEEDS[product];
        return scope === null || key.scopes.includes(scope);
      });
      expect(minted({ key, org })).toEqual(byKey.filter((product) => byTier.includes(product)));
    }),
  RUNS,
);

law(
  "P3 what can be minted is what the key stores cut with what the tier admits, through the whole order of checks",
  () => mintsStoredAndTier(HEALTHY_ORDERS),
  RUNS,
);

law(
  "P3 Free admits exactly the product tile, Pro all four, no plan none (item 12)",
  () =>
    fc.property(snapshotArb, ({ key, org }) => {
      const full = { key: { ...key, ...FULL }, org };
      expect(TIERS.map((tier) => minted(onTier(full, tier)))).toEqual([[], ["tile"], [...PRODUCTS]]);
    }),
  { quick: 100, nightly: 1_000 },
);

law(
  "P3 a downgrade never adds a product or a use",
  () =>
    fc.property(snapshotArb, (snapshot) => {
      for (const [i, tier] of TIERS.slice(1).entries()) {
        within(minted(onTier(snapshot, TIERS[i] ?? null)), minted(onTier(snapshot, tier)));
        within(usable(onTier(snapshot, TIERS[i] ?? null)), usable(onTier(snapshot, tier)));
      }
    }),
  RUNS,
);

law(
  "P3 a scope more, or a product more in a list of some, never takes a product or a use away",
  () =>
    fc.property(snapshotArb, scopeArb, productArb, ({ key, org }, scope, product) => {
      const before = { key, org };
      // A first name in an empty list is a restriction, not an addition.
      const products = key.products.length === 0 ? key.products : [...key.products, product];
      const after = { key: { ...key, scopes: [...key.scopes, scope], products }, org };
      within(minted(before), minted(after));
      within(usable(before), usable(after));
    }),
  RUNS,
);

law(
  "P3 the order of the lists and names said twice change nothing",
  () =>
    fc.property(
      snapshotArb.chain(({ key, org }) =>
        fc.record({
          before: fc.constant({ key, org }),
          scopes: fc.shuffledSubarray([...key.scopes, ...key.scopes], { minLength: key.scopes.length * 2 }),
          products: fc.shuffledSubarray([...key.products, ...key.products], { minLength: key.products.length * 2 }),
        }),
      ),
      ({ before, scopes, products }) => {
        const after = { ...before, key: { ...before.key, scopes, products } };
        expect(minted(after)).toEqual(minted(before));
        expect(usable(after)).toEqual(usable(before));
      },
    ),
  RUNS,
);

law(
  "P3 what is no matter of admission has no say in it",
  () =>
    fc.property(snapshotArb, keyArb, ({ key, org }, other) => {
      const { kind, scopes, products } = key;
      const same = { key: { ...other, kind, scopes, products }, org: { ...org, map_load_allowance: 0, key_limit: 0 } };
      expect(minted(same)).toEqual(minted({ key, org }));
      expect(usable(same)).toEqual(usable({ key, org }));
    }),
  RUNS,
);

law(
  "P4 the tier is named only when the key has stored the capability",
  () =>
    fc.property(snapshotArb, productArb, scopeArb, (snapshot, product, scope) => {
      const { key } = snapshot;
      const needed = NEEDS[product];
      if (productRefusal(snapshot, product) === "tier_capability_not_allowed") {
        expect(needed === null || key.scopes.includes(needed)).toBe(true);
        expect(stored(key)).toContain(product);
      }
      if (scopeRefusal(snapshot, scope, product) === "tier_capability_not_allowed") {
        expect(key.scopes).toContain(scope);
        expect(stored(key)).toContain(product);
      }
    }),
  RUNS,
);

law(
  "P4 a stored capability is never called insufficient: only the tier can stand in its way",
  () =>
    fc.property(snapshotArb, productArb, (snapshot, product) => {
      const { key } = snapshot;
      const needed = NEEDS[product];
      fc.pre((needed === null || key.scopes.includes(needed)) && stored(key).includes(product));
      expect([null, "tier_capability_not_allowed"]).toContain(productRefusal(snapshot, product));
      if (needed !== null) {
        expect([null, "tier_capability_not_allowed"]).toContain(scopeRefusal(snapshot, needed, product));
      }
    }),
  { quick: 500, nightly: 50_000 },
);

law(
  "whoever can mint a product can use what it was minted for",
  () =>
    fc.property(snapshotArb, productArb, ({ key, org }, product) => {
      const snapshot = { key: { ...key, kind: "publishable" as const }, org };
      const scope = NEEDS[product];
      if (scope === null || productRefusal(snapshot, product) !== null) return;
      expect(scopeRefusal(snapshot, scope, product)).toBeNull();
    }),
  RUNS,
);
