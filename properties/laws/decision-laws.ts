/**
 * Laws about one decision, as functions of what decides: tests pass in the healthy orders of checks and spoilt ones, the
 * trials of mutants a mutant's (mutant-laws.ts).
 */
import fc from "fast-check";
import { expect } from "vitest";
import { PRODUCTS, type Product, type Scope } from "../../src/contract/routes.ts";
import type { Call } from "../../src/core/call.ts";
import type { Orders } from "../../src/core/order.ts";
import type { Caps, Shedder } from "../../src/core/shedding.ts";
import type { Parts } from "../../src/platform/parts.ts";
import { productsArb, scopesArb, tierArb } from "../model/arbitraries.ts";
import { ALLOWANCE, decide, type Facts, factsArb, HEALTHY } from "../model/facts.ts";
import { demanded } from "../model/order-oracle.ts";

export const firstFailingCheckDecides = (orders: Orders) =>
  fc.property(factsArb, (facts) => {
    const [expected, got] = [demanded(facts) ?? "admitted", decide(facts, orders).name ?? "admitted"];
    if (got !== expected) throw new Error(`expected ${expected}, got ${got}`);
  });

const BY_LIMITER = ["limiter_unavailable", "rate_limited", "map_load_quota_exceeded", "map_load_hard_stop"];

export const nothingIsAskedBeyond = (orders: Orders) =>
  fc.property(factsArb, (facts) => {
    const { name, asked } = decide(facts, orders);
    expect(new Set(asked).size).toBe(asked.length);
    const limiterDecided = name === null || BY_LIMITER.includes(name);
    if (asked.includes("take") !== limiterDecided) {
      throw new Error(
        limiterDecided
          ? `expected the limiter to be asked for ${name}`
          : `expected ${name} to spend nothing, but the limiter was asked`,
      );
    }
    if (limiterDecided) expect(asked.at(-1)).toBe("take");
    if (name === "b2b_overloaded") expect(asked).toEqual([]);
  });

/** The meter that a call must be charged to, written independently from the specification (items 80, 122, 205, 227; A9). */
const meterOf = (facts: Facts): { name: string; amount: number; cap: number | null } | null => {
  const load = { name: "map_loads", amount: 1, cap: facts.tier === "Pro" ? 5 * ALLOWANCE : ALLOWANCE };
  if (facts.route === "sdk.sessions") return facts.product === "tile" ? load : null;
  if (facts.route === "maps.loads") return load;
  return facts.route === "design.analyze"
    ? { name: "design_analyses", amount: 1, cap: facts.designIsCapped ? 3 : null }
    : null;
};

export const chargesTheMeterOfItsRoute = (orders: Orders) =>
  fc.property(factsArb, (facts) => {
    const { takes } = decide(facts, orders);
    expect(takes.length).toBeLessThan(2);
    for (const { rate, meter } of takes)
      expect({ rate, meter }).toEqual({ rate: { perS: 50, burst: 100 }, meter: meterOf(facts) });
  });

const NEEDS: Readonly<Record<Product, Scope | null>> = { chat: "ai", editor: "design", viewer: null, tile: "maps" };
const BY_TIER: Readonly<Record<string, readonly Product[]>> = { Pro: PRODUCTS, Free: ["tile"] };

/** P3 as a caller sees it, by minting each product. */
export const mintsStoredAndTier = (orders: Orders) =>
  fc.property(scopesArb, productsArb, tierArb, (scopes, products, tier) => {
    const stored = PRODUCTS.filter((product) => {
      const named = products.length === 0 ? product !== "viewer" : products.includes(product);
      const scope = NEEDS[product];
      return named && (scope === null || scopes.includes(scope));
    });
    const admitted = tier === null ? [] : (BY_TIER[tier] ?? []);
    const minted = PRODUCTS.filter(
      (product) => decide({ ...HEALTHY, scopes, products, tier, product }, orders).name === null,
    );
    const expected = stored.filter((product) => admitted.includes(product));
    if (`${minted}` !== `${expected}`) {
      throw new Error(`expected [${stored}] cut with [${admitted}] to mint [${expected}], got [${minted}]`);
    }
  });

export const slotsComeBack = (orders: Orders, shedder: (caps: Caps) => Shedder, slots: Parts["slots"]) =>
  fc.property(factsArb, fc.boolean(), (facts, left) => {
    const { name, call } = decide(facts, orders, shedder);
    expect(call.shedder.inFlight()).toBe(name === "b2b_overloaded" ? 0 : 1);
    if (name === null) expect(call.shedder.inFlightByOrganization()).toEqual({ org_a: 1 });
    const ends = left ? slots.clientLeft : slots.answering;
    ends(call);
    ends(call);
    const held = call.shedder.inFlight();
    if (held !== 0) {
      throw new Error(
        `expected the slot back after ${left ? "the client left" : `${name ?? "an answer"}`}, got ${held} held`,
      );
    }
    expect(call.shedder.inFlightByOrganization()).toEqual({});
  });

/** Items 146, 159-160: an answer allows an origin only if it is in the allowlist of a key that browsers may use. */
export const originIsToldOnlyWhenListed = (orders: Orders, cors: (call: Call) => string | null) =>
  fc.property(factsArb, (facts) => {
    const { call } = decide(facts, orders);
    const browsers = facts.credential === "publishable" || (facts.credential === "session" && facts.tokenGood);
    const found = browsers && !facts.replicaFull && !facts.keyServiceDown && !facts.keyUnknown;
    const listed = facts.origin === "listed" || facts.origin === "respelled";
    const [expected, got] = [found && listed ? call.caller.origin : null, cors(call)];
    if (got !== expected) throw new Error(`expected Access-Control-Allow-Origin ${expected}, got ${got}`);
  });
