/**
 * P6: a meter is exact over any interleaving of parallel mints. Messages overtake each other before and after they are
 * applied, come twice, lose their answers, meet their own refund on the way; in the end exactly the admitted calls are
 * charged, and at no step more than the cap. The law is then shown stores with one thing broken.
 */
import type fc from "fast-check";
import { describe, expect, test } from "vitest";
import { fits } from "../src/core/meters.ts";
import { LIMITER_DECISIONS, type LimiterStore, openLimiterStore } from "../src/platform/limiter/store.ts";
import { HEALTHY } from "../src/platform/parts.ts";
import type { Take } from "../src/platform/ports.ts";
import { examine } from "./laws/examine.ts";
import { BUDGET, law } from "./laws/law.ts";
import { meterIsExact, type Schedules } from "./laws/quota-law.ts";
import { runsOf } from "./laws/seed.ts";

const RUNS = { quick: 1_000, nightly: 100_000 };

const played: Schedules = { run: 0, interleaved: 0 };

law(
  "P6 exactly the admitted mints are charged, never above the cap, in any interleaving",
  () => meterIsExact(() => openLimiterStore(":memory:"), HEALTHY, played),
  RUNS,
);

test("P6 as many schedules were really played as the profile promises, nearly all with something to interleave", (context) => {
  if (played.run === 0) context.skip("the law was not asked for");
  expect(played.run).toBeGreaterThanOrEqual(BUDGET.replay === null ? runsOf(BUDGET, RUNS) : 1);
  expect(played.interleaved).toBeGreaterThan(0.9 * played.run);
  expect(RUNS.nightly).toBeGreaterThanOrEqual(10_000);
  if (BUDGET.profile === "nightly")
    process.stdout.write(`P6: ${played.run} schedules, ${played.interleaved} interleaved\n`);
});

describe("P6 condemns", () => {
  const DRAW = { seed: 1, runs: 1_500, shrinks: false };
  const wrap = (change: (store: LimiterStore, s: fc.Scheduler) => Partial<LimiterStore>) => (s: fc.Scheduler) => {
    const store = openLimiterStore(":memory:");
    return { ...store, ...change(store, s) };
  };
  const known = (): Set<string> => new Set<string>();

  const BROKEN: [string, (s: fc.Scheduler) => LimiterStore][] = [
    [
      "a store that admits one too many",
      () =>
        openLimiterStore(":memory:", {
          ...LIMITER_DECISIONS,
          fits: (used, amount, cap) => fits(used, amount, (cap ?? 0) + 1),
        }),
    ],
    [
      "a store that stops one short",
      () =>
        openLimiterStore(":memory:", {
          ...LIMITER_DECISIONS,
          fits: (used, amount, cap) => fits(used + 1, amount, cap),
        }),
    ],
    [
      "a store that checks, waits and then charges",
      wrap((store, s) => ({
        take: async (takes, at) => {
          const answers = [];
          for (const take of takes) {
            const meter = take.meter as NonNullable<typeof take.meter>;
            const used = store.used(take.org, meter.name, at);
            await s.schedule(Promise.resolve(), `${take.charge_id}: gap between check and charge`);
            const room = fits(used, meter.amount, meter.cap);
            const [answer] = await store.take([room ? { ...take, meter: { ...meter, cap: null } } : take], at);
            if (answer !== undefined) answers.push(answer);
          }
          return answers;
        },
      })),
    ],
    [
      "a store that charges a doubled message twice",
      wrap((store) => {
        const seen = known();
        const asNew = (take: Take): Take => {
          const again = seen.has(take.charge_id);
          seen.add(take.charge_id);
          return again ? { ...take, charge_id: `${take.charge_id} again` } : take;
        };
        return { take: (takes, at) => store.take(takes.map(asNew), at) };
      }),
    ],
    [
      "a store that forgets a refund which comes before its charge",
      wrap((store) => {
        const charged = known();
        return {
          take: (takes, at) => {
            for (const { charge_id } of takes) charged.add(charge_id);
            return store.take(takes, at);
          },
          refund: (refunds, at) =>
            store.refund(
              refunds.filter(({ charge_id }) => charged.has(charge_id)),
              at,
            ),
        };
      }),
    ],
    [
      "a store that refunds twice",
      wrap((store) => {
        const seen = known();
        return {
          refund: (refunds, at) => {
            for (const { charge_id, org, meter } of refunds) {
              if (seen.has(charge_id)) store.setUsed(org, meter, Math.max(0, store.used(org, meter, at) - 1), at);
              seen.add(charge_id);
            }
            return store.refund(refunds, at);
          },
        };
      }),
    ],
    ["a store that loses refunds", wrap(() => ({ refund: () => {} }))],
    [
      "a store that keeps the old month's count",
      () => openLimiterStore(":memory:", { ...LIMITER_DECISIONS, windowOf: () => "2026-05" }),
    ],
    [
      "a store that charges what it refuses",
      wrap((store) => ({
        take: async (takes, at) => {
          const answers = await store.take(takes, at);
          for (const [i, answer] of answers.entries()) {
            const take = takes[i];
            if (answer.verdict === "rate_limited" && take?.meter) {
              store.setUsed(take.org, take.meter.name, store.used(take.org, take.meter.name, at) + 1, at);
            }
          }
          return answers;
        },
      })),
    ],
  ];

  test.each(BROKEN)("%s", async (_, open) => {
    const finding = await examine(meterIsExact(open), DRAW);
    expect(finding).not.toBeNull();
  });
});
