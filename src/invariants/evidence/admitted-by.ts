/**
 * What a caller's own facts say about capability: stored in the key and admitted by the tier (specification 2.3, 4.1,
 * 7.2; table B6), independently of the platform's tables.
 */
import type { CallFacts } from "../../contract/call-facts.ts";
import { PRODUCT_SCOPE, type Product, routeOf, type Scope } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";

/** `or` over facts of which some are not known. */
export const either = (...facts: (boolean | undefined)[]): boolean | undefined =>
  facts.includes(true) ? true : facts.includes(undefined) ? undefined : false;

export const not = (fact: boolean | undefined): boolean | undefined => (fact === undefined ? undefined : !fact);

/**
 * The order of checks, written a second time: from a caller's own facts, every answer that the specification allows this
 * call to get (requirements.md, part B). Independent of the platform on purpose. `ours` holds a deployment to the one
 * reading that the reference platform implements; otherwise every reading of part C is allowed.
 */

/**
 * Free admits exactly the product `tile` and publishable keys (items 48, 75; A15); an organization without a plan is
 * admitted nothing.
 */
const FREE_PRODUCTS: readonly Product[] = ["tile"];
const FREE_SCOPES: readonly Scope[] = ["maps"];

/** Whether the call lacks each capability; `undefined`: not known. */
type Lacks = { scope: boolean | undefined; product: boolean | undefined; tier: boolean | undefined };

const productMissing = (facts: CallFacts, product: Product | undefined): boolean | undefined => {
  if (product === undefined || facts.products === undefined) return undefined;
  // Item 57, A7: an empty list restricts only `viewer`, which must be named.
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

/**
 * A session of the reference carries only the scope of its product (A16); a foreign one may carry all scopes of its
 * key. A server key is bound by scopes, not by products.
 */
const runtimeLacks = (facts: CallFacts, scope: Scope | null, ours: boolean): Lacks => {
  if (facts.credential !== "session") {
    return { scope: scopeMissing(facts, scope), product: false, tier: tierRefuses(facts, { scope }) };
  }
  const { product } = facts;
  const other = product === undefined ? undefined : PRODUCT_SCOPE[product] !== scope;
  const notOfProduct = scope === null ? false : other === true && !ours ? undefined : other;
  return {
    scope: either(scopeMissing(facts, scope), notOfProduct),
    // A product taken from the key after the mint.
    product: productMissing(facts, product),
    tier: product === undefined && facts.tier === "Free" ? undefined : tierRefuses(facts, { product, scope }),
  };
};

/** For calls with a valid credential of the surface's own kind. `ours`: by the reference platform's reading. */
export const lacksOf = (call: CallLine, facts: CallFacts, ours: boolean): Lacks => {
  if (call.route === "-") return { scope: undefined, product: undefined, tier: undefined };
  const route = routeOf(call.route);
  return route.surface === "exchange" ? exchangeLacks(facts) : runtimeLacks(facts, route.scope, ours);
};
