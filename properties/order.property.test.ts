/**
 * P1: whatever is wrong with a call, the first failing check of B2/B3 decides, and nothing is asked or spent beyond it.
 * The law is then shown spoilt orders, because a law that acquits those would say nothing about the healthy one.
 */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { REFUSALS } from "../src/contract/refusals.ts";
import { type Check, EXCHANGE_ORDER, HEALTHY_ORDERS, type Orders, RUNTIME_ORDER } from "../src/core/order.ts";
import { HEALTHY } from "../src/platform/parts.ts";
import {
  chargesTheMeterOfItsRoute,
  firstFailingCheckDecides,
  nothingIsAskedBeyond,
  originIsToldOnlyWhenListed,
  slotsComeBack,
} from "./laws/decision-laws.ts";
import { examine } from "./laws/examine.ts";
import { BUDGET, law } from "./laws/law.ts";
import { ALLOWANCE, decide, factsArb } from "./model/facts.ts";

const RUNS = { quick: 10_000, nightly: 500_000 };

law("P1 the first failing check decides (item 69)", () => firstFailingCheckDecides(HEALTHY_ORDERS), RUNS);

law(
  "P1 nothing is asked beyond the check that decides, and the limiter is asked last and once",
  () => nothingIsAskedBeyond(HEALTHY_ORDERS),
  RUNS,
);

law(
  "P1 a call holds the slots that it passed and gives back each once",
  () => slotsComeBack(HEALTHY_ORDERS, HEALTHY.shedder, HEALTHY.slots),
  RUNS,
);

law(
  "P6 a call is charged to the meter of its route, by its tier's cap, and to no other",
  () => chargesTheMeterOfItsRoute(HEALTHY_ORDERS),
  RUNS,
);

law(
  "an answer names the origin exactly when the key's list has it",
  () => originIsToldOnlyWhenListed(HEALTHY_ORDERS, HEALTHY.cors),
  RUNS,
);

law(
  "P7 used and limit are integers, and only the flat quota refusal carries them",
  () =>
    fc.property(factsArb, (facts) => {
      const { refusal, name } = decide(facts);
      if (name !== "map_load_quota_exceeded") return refusal?.quota === undefined;
      expect(refusal?.quota).toEqual({ meter: "map_loads", limit: ALLOWANCE, used: ALLOWANCE });
      return Number.isInteger(refusal?.quota?.limit) && Number.isInteger(refusal?.quota?.used);
    }),
  RUNS,
);

test("the drawn facts reach every refusal of the two orders", () => {
  const reached = new Set(
    fc.sample(factsArb, { seed: BUDGET.seed, numRuns: RUNS.quick }).map((facts) => decide(facts).name),
  );
  const managementOnly = [
    "unknown_scope",
    "unknown_product",
    "publishable_live_requires_origins",
    "free_plan_publishable_only",
    "plan_required",
    "vendor_scope_requires_acknowledgement",
    "key_limit_reached",
  ];
  const missed = Object.keys(REFUSALS).filter((name) => !reached.has(name as never) && !managementOnly.includes(name));
  expect(missed).toEqual([]);
});

describe("P1 condemns", () => {
  // From a seed of its own: whether the law is sharp enough is a fact about the law, not about today's cases.
  const QUICK = { seed: 1, runs: RUNS.quick, shrinks: false };
  const spoilt = (surface: "exchange" | "runtime", names: string[]): Orders => {
    const table: Readonly<Record<string, Check>> = surface === "exchange" ? EXCHANGE_ORDER : RUNTIME_ORDER;
    return { ...HEALTHY_ORDERS, [surface]: names.map((name) => table[name] as Check) };
  };
  /** A check and the question that it reads the answer of move together. */
  const unitsOf = (table: Readonly<Record<string, Check>>): string[][] => {
    const units: string[][] = [];
    for (const name of Object.keys(table)) {
      if (units.at(-1)?.at(-1)?.startsWith("ask") === true) units.at(-1)?.push(name);
      else units.push([name]);
    }
    return units;
  };
  const nameOf = (unit: string[]): string => unit.at(-1) as string;

  // Two checks that can never both fail, or say the same, may stand either way round.
  const EXCLUSIVE = [
    "credentialIsGiven and sessionIsGood",
    "sessionsAreConfigured and sessionsAreEnabled",
    "keyIsNotPublishable and serverKeyIsNotInBrowser",
    "addressIsListed and sessionOriginIsListed",
  ];

  for (const surface of ["exchange", "runtime"] as const) {
    const units = unitsOf(surface === "exchange" ? EXCHANGE_ORDER : RUNTIME_ORDER);

    test.each(units.map(nameOf))(`an order of the ${surface} without %s`, async (left) => {
      const orders = spoilt(
        surface,
        units.flat().filter((name) => name !== left),
      );
      expect(await examine(firstFailingCheckDecides(orders), QUICK)).not.toBeNull();
    });

    const pairs = units.slice(1).map((second, i) => [units[i] as string[], second] as const);
    test.each(pairs.map(([first, second]) => [nameOf(first), nameOf(second)]))(
      `an order of the ${surface} with %s and %s swapped, unless that cannot show`,
      async (first, second) => {
        const swapped = units.map((unit) =>
          nameOf(unit) === first
            ? units.find((other) => nameOf(other) === second)
            : nameOf(unit) === second
              ? units.find((other) => nameOf(other) === first)
              : unit,
        ) as string[][];
        const found = await examine(firstFailingCheckDecides(spoilt(surface, swapped.flat())), QUICK);
        expect(found === null).toBe(EXCLUSIVE.includes(`${first} and ${second}`));
      },
    );
  }
});
