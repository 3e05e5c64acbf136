/**
 * What a call lacks by its caller's own facts: stored in the key and admitted by the tier (specification 2.3, 4.1, 7.2; table
 * B6). Independent of the platform's tables. `ours`: only the reference's reading; otherwise every reading of part C.
 */
import type { CallFacts } from "../../contract/call-facts.ts";
import { PRODUCT_SCOPE, type Product, routeOf, type Scope } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";

/** `or` with unknown facts. */
export const either = (...facts: (boolean | undefined)[]): boolean | undefined =>
  facts.includes(true) ? true : facts.includes(undefined) ? undefined : false;

export const not = (fact: boolean | undefined): boolean | undefined => (fact === undefined ? undefined : !fact);

/** Free admits only the product `tile` and publishable keys (items 48, 75; A15); without a plan nothing is admitted. */
const FREE_PRODUCTS: readonly Product[] = ["tile"];
const FREE_SCOPES: readonly Scope[] = ["maps"];

/** `undefined`: unknown. */
type Lacks = { scope: boolean | undefined; product: boolean | undefined; tier: boolean | undefined };

const productMissing = (facts: CallFacts, product: Product | undefined): boolean | undefined => {
  if (product === undefined || facts.products === undefined) return undefined;
  // Item 57, A7: an empty list restricts only `viewer`.
  return facts.products.length === 0 ? product === "viewer" : !facts.products.includes(product);
};

const scopeMissing = (facts: CallFacts, scope: Scope | null): boolean | undefined => {
  if (scope === null) return false;
  return facts.scopes === undefined ? undefined : !facts.scopes.includes(scope);
};

const tierRefuses = (
  facts: CallFacts,
  needs: { product?: Product | undefined; scope?: Scope | null },
): boolean | undefined => {
  if (facts.tier === undefined) return undefined;
  if (facts.tier === null) return true;
  if (facts.tier === "Pro") return false;
  if (facts.credential === "server") return true;
  const { product, scope = null } = needs;
  return either(
    product === undefined ? false : !FREE_PRODUCTS.includes(product),
    scope === null ? false : !FREE_SCOPES.includes(scope),
  );
};

const exchangeLacks = (facts: CallFacts): Lacks => {
  const { product } = facts;
  if (product === undefined) return { scope: undefined, product: undefined, tier: undefined };
  const scope = PRODUCT_SCOPE[product];
  return {
    scope: scopeMissing(facts, scope),
    product: productMissing(facts, product),
    tier: tierRefuses(facts, { product, scope }),
  };
};

/** The reference's sessions carry only their product's scope (A16). Products do not restrict a server key. */
const runtimeLacks = (facts: CallFacts, scope: Scope | null, ours: boolean): Lacks => {
  if (facts.credential !== "session") {
    return { scope: scopeMissing(facts, scope), product: false, tier: tierRefuses(facts, { scope }) };
  }
  const { product } = facts;
  const other = product === undefined ? undefined : PRODUCT_SCOPE[product] !== scope;
  const notOfProduct = scope === null ? false : other === true && !ours ? undefined : other;
  return {
    scope: either(scopeMissing(facts, scope), notOfProduct),
    // Taken from the key after the mint.
    product: productMissing(facts, product),
    tier: product === undefined && facts.tier === "Free" ? undefined : tierRefuses(facts, { product, scope }),
  };
};

/** For calls with a valid credential of the right kind. */
export const lacksOf = (call: CallLine, facts: CallFacts, ours: boolean): Lacks => {
  if (call.route === "-") return { scope: undefined, product: undefined, tier: undefined };
  const route = routeOf(call.route);
  return route.surface === "exchange" ? exchangeLacks(facts) : runtimeLacks(facts, route.scope, ours);
};
