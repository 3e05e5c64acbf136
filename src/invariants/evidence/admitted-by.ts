/**
 * What a caller's own facts say about capability: stored in the key, and admitted by the tier (specification 2.3, 4.1,
 * 7.2; table B6). The judges' own tables: the platform's are not looked at.
 */
import type { CallFacts } from "../../contract/call-facts.ts";
import { PRODUCT_SCOPE, type Product, routeOf, type Scope } from "../../contract/routes.ts";
import type { CallLine } from "../../history/line.ts";
import { either } from "./walk.ts";

/** Free admits exactly the product `tile` and publishable keys (items 48, 75; A15); no plan record admits nothing. */
const FREE_PRODUCTS: readonly Product[] = ["tile"];
const FREE_SCOPES: readonly Scope[] = ["maps"];

/** For each of the three refusals of capability, whether the call has earned it; `undefined`: the facts do not say. */
type Lacks = { scope: boolean | undefined; product: boolean | undefined; tier: boolean | undefined };

const productMissing = (facts: CallFacts, product: Product | undefined): boolean | undefined => {
  if (product === undefined || facts.products === undefined) return undefined;
  // Item 57, A7: an empty list restricts nothing but `viewer`, which has to be named.
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
 * A session carries the scope of its product alone (A16); elsewhere it may carry all that its key has. A server key is bound by
 * its scopes, not by products.
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
    // A product that was taken from the key after the mint, where that is known.
    product: productMissing(facts, product),
    tier: product === undefined && facts.tier === "Free" ? undefined : tierRefuses(facts, { product, scope }),
  };
};

/** For calls with a good credential of the surface's own kind. `ours`: by the reference platform's reading. */
export const lacksOf = (call: CallLine, facts: CallFacts, ours: boolean): Lacks => {
  if (call.route === "-") return { scope: undefined, product: undefined, tier: undefined };
  const route = routeOf(call.route);
  return route.surface === "exchange" ? exchangeLacks(facts) : runtimeLacks(facts, route.scope, ours);
};
