/**
 * The judges' order of checks and the core's are two texts by two hands: on the same facts the judge must allow what the
 * healthy core answers, and any two checks swapped must show on some call.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CallFacts } from "../src/contract/call-facts.ts";
import { type AnyRefusalName, outcomeOf } from "../src/contract/refusals.ts";
import { EXCHANGE_ORDER, HEALTHY_ORDERS, type Orders, RUNTIME_ORDER } from "../src/core/order.ts";
import type { CallLine } from "../src/history/line.ts";
import { legalAnswers } from "../src/invariants/evidence/legal-answers.ts";
import { call } from "../src/invariants/specimens/specimen.fixture.ts";
import { BUDGET, law } from "./laws/law.ts";
import { decide, type Facts, factsArb } from "./model/facts.ts";

/** What a caller knows of the call that these facts describe; what only the platform knows is left out. */
const lineOf = (facts: Facts): CallLine => {
  const { credential, origin } = facts;
  const foreign =
    credential === "nonsense" || credential === "oversized" || (credential === "session" && !facts.tokenGood);
  const known: CallFacts = {
    credential: foreign ? "garbage" : credential,
    state: facts.keyRevoked ? "revoked" : facts.keyExpired ? "expired" : "valid",
    origin: origin === "respelled" ? "listed" : origin === "lookalike" ? "foreign" : origin,
    tier: facts.tier,
    scopes: facts.scopes,
    products: facts.products,
    body: facts.bodyMalformed ? "malformed" : "ok",
  };
  if (facts.keyUnknown && !foreign && credential !== "none") known.credential = "unknown";
  if (credential === "server") known.ip = facts.address === "foreign" ? "foreign" : "allowed";
  if (facts.route === "sdk.sessions") known.product = facts.product;
  else if (credential === "session") known.product = facts.sessionProduct;
  return call("1", { route: facts.route, facts: known });
};

const outcomeUnder = (facts: Facts, orders: Orders): string => {
  const { name } = decide(facts, orders);
  return name === null ? "200" : outcomeOf(name as AnyRefusalName);
};

const isAllowed = (facts: Facts, ours: boolean, orders: Orders = HEALTHY_ORDERS): boolean =>
  legalAnswers(lineOf(facts), { ours, stateUnsettled: false })?.has(outcomeUnder(facts, orders)) === true;

describe("the judge of the order of checks", () => {
  law(
    "allows whatever the healthy core answers, as ours and as anybody's",
    () =>
      fc.property(factsArb, (facts) => {
        for (const ours of [true, false]) {
          if (isAllowed(facts, ours)) continue;
          const legal = [...(legalAnswers(lineOf(facts), { ours, stateUnsettled: false }) ?? [])].join(" | ");
          throw new Error(`${outcomeUnder(facts, HEALTHY_ORDERS)} is not among ${legal} (ours: ${ours})`);
        }
      }),
    { quick: 10_000, nightly: 500_000 },
  );

  const swapped = (order: readonly unknown[], at: number): unknown[] =>
    order.map((check, index) => (index === at ? order[at + 1] : index === at + 1 ? order[at] : check));
  /** What asks for something, or answers by settings and load, which no caller knows. */
  const UNTOLD = /^(ask|sessionsAre|limiter|organizationHasRoom|replicaHasRoom)/;
  /** Checks of credentials that exclude each other: swapped, they answer alike. */
  const ALIKE = new Set(["keyIsNotPublishable serverKeyIsNotInBrowser", "addressIsListed sessionOriginIsListed"]);
  const cases = (["exchange", "runtime"] as const).flatMap((surface) => {
    const names = Object.keys(surface === "exchange" ? EXCHANGE_ORDER : RUNTIME_ORDER);
    return names
      .map((name, at) => [surface, name, names[at + 1] ?? "ask", at] as const)
      .filter(([, one, other]) => !UNTOLD.test(one) && !UNTOLD.test(other) && !ALIKE.has(`${one} ${other}`));
  });
  const calls = fc.sample(factsArb, { seed: BUDGET.seed, numRuns: 20_000 });

  test.each(cases)("notices on %s calls when %s and %s are swapped", (surface, _, __, at) => {
    const orders = { ...HEALTHY_ORDERS, [surface]: swapped(HEALTHY_ORDERS[surface], at) } as Orders;
    const caught = calls.some((facts) => {
      try {
        return !isAllowed(facts, true, orders);
      } catch {
        // In this order the core cannot run at all.
        return true;
      }
    });
    expect(caught).toBe(true);
  });
});
