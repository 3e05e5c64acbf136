/**
 * P2: the order of checks is total. Whoever removes the cause of the reported refusal, and nothing else, comes to a later
 * check or in, never back to an earlier one; so a caller who mends one thing after another always arrives. The law is then
 * shown orders in which that is not so.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Check, EXCHANGE_ORDER, HEALTHY_ORDERS, RUNTIME_ORDER } from "../src/core/order.ts";
import { examine } from "./laws/examine.ts";
import { law } from "./laws/law.ts";
import { repairNeverLeadsBack, repairsLeadIn } from "./laws/repair-laws.ts";
import { decide, factsArb, HEALTHY } from "./model/facts.ts";

const RUNS = { quick: 5_000, nightly: 300_000 };

law(
  "P2 removing the cause of the reported refusal never reveals an earlier one",
  () => repairNeverLeadsBack(HEALTHY_ORDERS),
  RUNS,
);

law("P2 mending one reported cause after another leads in", () => repairsLeadIn(HEALTHY_ORDERS), RUNS);

law(
  "a healthy call is admitted whatever cannot concern it",
  () =>
    fc.property(factsArb, ({ address, sessionProduct, tokenGood, designIsCapped }) => {
      // A publishable key in a mint: addresses, tokens and the meter of analyses are none of its business.
      const facts = { ...HEALTHY, address, sessionProduct, tokenGood, designIsCapped };
      expect(decide(facts).name).toBeNull();
    }),
  { quick: 500, nightly: 10_000 },
);

describe("P2 condemns", () => {
  const DRAW = { seed: 1, runs: RUNS.quick, shrinks: false };
  const swapped = (table: Readonly<Record<string, Check>>, one: string, other: string): Check[] =>
    Object.keys(table).map((name) => table[name === one ? other : name === other ? one : name] as Check);

  test.each([
    ["exchange", "keyIsPublishable", "originIsListed"],
    ["exchange", "originIsPresent", "bodyIsWellFormed"],
    ["exchange", "sessionsAreEnabled", "organizationHasRoom"],
    ["runtime", "sessionOriginIsListed", "scopeIsAdmitted"],
    ["runtime", "serverKeyIsNotInBrowser", "addressIsListed"],
    ["runtime", "scopeIsAdmitted", "organizationHasRoom"],
  ] as const)("an order of the %s with %s and %s swapped", async (surface, one, other) => {
    const table = surface === "exchange" ? EXCHANGE_ORDER : RUNTIME_ORDER;
    const orders = { ...HEALTHY_ORDERS, [surface]: swapped(table, one, other) };
    expect(await examine(repairNeverLeadsBack(orders), DRAW)).not.toBeNull();
  });

  test("an order whose checks change places with the weather", async () => {
    const first = RUNTIME_ORDER.scopeIsAdmitted as Check;
    const second = RUNTIME_ORDER.organizationHasRoom as Check;
    const either: Check = (call) =>
      call.caller.origin === null ? (second(call) ?? first(call)) : (first(call) ?? second(call));
    const runtime = HEALTHY_ORDERS.runtime.flatMap((check) =>
      check === first ? [either] : check === second ? [] : [check],
    );
    expect(await examine(repairNeverLeadsBack({ ...HEALTHY_ORDERS, runtime }), DRAW)).not.toBeNull();
  });
});
