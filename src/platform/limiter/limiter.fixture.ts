/** What every limiter keeps, whatever it is made of. Run by `limiter.test.ts` and `redis-limiter.test.ts`. */

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { LedgerLine } from "../../contract/routes.ts";
import { Unavailable } from "../links/batch.ts";
import { type Clock, type OperableLimiter, type Refund, shiftableClock, type Take } from "../ports.ts";
import type { LimiterStore } from "./store.ts";

const BUDGET_MS = 5_000;
const DAY_MS = 86_400_000;

/** The port over a store in the same process. It answers at once, so budgets have no meaning. */
export const localLimiter = (store: LimiterStore, clock: Clock = shiftableClock()): OperableLimiter => ({
  take: async (take) => {
    const answer = (await store.take([take], clock.instant()))[0];
    if (answer === undefined || answer.verdict === "refunded") {
      throw new Unavailable("the limiter", "the charge was refunded before it arrived");
    }
    return answer;
  },
  refund: async (refund) => store.refund([refund], clock.instant()),
  used: async (org, meter) => store.used(org, meter, clock.instant()),
  setUsed: async (org, meter, used) => store.setUsed(org, meter, used, clock.instant()),
  ledger: async function* (run) {
    yield* store.ledger(run);
  },
  setClockOffset: async (offsetMs) => clock.setOffsetMs(offsetMs),
  close: async () => store.close(),
});

/** A take of one map load of a fresh organization unless stated otherwise. */
export const aTake = (fields: Partial<Take> = {}): Take => ({
  charge_id: randomUUID(),
  request_id: `run-${randomUUID()}`,
  org: "org_x",
  key: "key_x",
  rate: null,
  meter: { name: "map_loads", amount: 1, cap: null },
  ...fields,
});

export const refundOf = ({ charge_id, request_id, org, key, meter }: Take): Refund => ({
  charge_id,
  request_id,
  org,
  key,
  meter: meter?.name ?? "map_loads",
  amount: meter?.amount ?? 1,
});

export const linesOf = async (limiter: OperableLimiter, run: string): Promise<LedgerLine[]> => {
  const lines: LedgerLine[] = [];
  for await (const line of limiter.ledger(run)) lines.push(line);
  return lines;
};

export const limiterCases = (name: string, open: () => Promise<OperableLimiter>): void => {
  describe(name, () => {
    let limiter: OperableLimiter;
    beforeAll(async () => {
      limiter = await open();
    });
    afterAll(() => limiter.close());
    const take = (fields: Partial<Take>) => limiter.take(aTake(fields), BUDGET_MS);
    const freshOrg = (): string => `org_${randomUUID()}`;

    test("admits up to the cap and not one more, and says what was used", async () => {
      const org = freshOrg();
      const meter = { name: "map_loads", amount: 1, cap: 2 } as const;
      expect(await take({ org, meter })).toMatchObject({ verdict: "taken", used: 1 });
      expect(await take({ org, meter })).toMatchObject({ verdict: "taken", used: 2 });
      expect(await take({ org, meter })).toMatchObject({ verdict: "over_cap", used: 2 });
      expect(await limiter.used(org, "map_loads")).toBe(2);
    });

    test("an amount that does not fit as a whole takes nothing", async () => {
      const org = freshOrg();
      await take({ org, meter: { name: "map_loads", amount: 3, cap: 5 } });
      expect(await take({ org, meter: { name: "map_loads", amount: 3, cap: 5 } })).toMatchObject({
        verdict: "over_cap",
      });
      expect(await take({ org, meter: { name: "map_loads", amount: 2, cap: 5 } })).toMatchObject({ used: 5 });
    });

    test("of 200 takes at once over a cap of 50, exactly 50 are charged", async () => {
      const org = freshOrg();
      const run = `run-${randomUUID()}`;
      const answers = await Promise.all(
        Array.from({ length: 200 }, () =>
          take({ org, request_id: run, meter: { name: "map_loads", amount: 1, cap: 50 } }),
        ),
      );
      expect(answers.filter(({ verdict }) => verdict === "taken")).toHaveLength(50);
      expect(answers.filter(({ verdict }) => verdict === "over_cap")).toHaveLength(150);
      expect(await limiter.used(org, "map_loads")).toBe(50);
      expect(await linesOf(limiter, run)).toHaveLength(50);
    });

    test("meters and organizations do not share", async () => {
      const [a, b] = [freshOrg(), freshOrg()];
      await take({ org: a });
      await take({ org: a, meter: { name: "design_analyses", amount: 4, cap: null } });
      expect([await limiter.used(a, "map_loads"), await limiter.used(a, "design_analyses")]).toEqual([1, 4]);
      expect(await limiter.used(b, "map_loads")).toBe(0);
    });

    test("a key may burst and then has to wait, and another key need not", async () => {
      const [key, other] = [randomUUID(), randomUUID()];
      const rate = { perS: 0.01, burst: 3 };
      for (let i = 0; i < 3; i += 1) expect(await take({ key, rate, meter: null })).toMatchObject({ verdict: "taken" });
      const refused = await take({ key, rate, meter: null });
      if (refused.verdict !== "rate_limited") throw new Error(`expected rate_limited, got ${refused.verdict}`);
      expect(refused.wait_ms).toBeGreaterThan(0);
      expect(refused.wait_ms).toBeLessThanOrEqual(100_000);
      expect(await take({ key: other, rate, meter: null })).toMatchObject({ verdict: "taken", used: null });
    });

    test("of 200 takes at once of one key, exactly the burst passes", async () => {
      const key = randomUUID();
      const answers = await Promise.all(
        Array.from({ length: 200 }, () => take({ key, rate: { perS: 0.001, burst: 20 }, meter: null })),
      );
      expect(answers.filter(({ verdict }) => verdict === "taken")).toHaveLength(20);
    });

    test("the rate decides before the meter, and its refusal charges nothing", async () => {
      const [org, key] = [freshOrg(), randomUUID()];
      const rate = { perS: 0.001, burst: 1 };
      await take({ org, key, rate, meter: { name: "map_loads", amount: 1, cap: 1 } });
      expect(await take({ org, key, rate, meter: { name: "map_loads", amount: 1, cap: 1 } })).toMatchObject({
        verdict: "rate_limited",
      });
      expect(await limiter.used(org, "map_loads")).toBe(1);
    });

    test("a meter's refusal does not cost a rate token", async () => {
      const [org, key] = [freshOrg(), randomUUID()];
      const rate = { perS: 0.001, burst: 1 };
      const full = { name: "map_loads", amount: 1, cap: 0 } as const;
      for (let i = 0; i < 3; i += 1) {
        expect(await take({ org, key, rate, meter: full })).toMatchObject({ verdict: "over_cap" });
      }
      expect(await take({ org, key, rate, meter: null })).toMatchObject({ verdict: "taken" });
    });

    test("a repeated charge gets the same answer, one charge, one line, and costs no rate token", async () => {
      const rate = { perS: 0.001, burst: 2 };
      const charge = aTake({
        org: freshOrg(),
        key: randomUUID(),
        rate,
        meter: { name: "map_loads", amount: 1, cap: 1 },
      });
      const [first, together] = await Promise.all([limiter.take(charge, BUDGET_MS), limiter.take(charge, BUDGET_MS)]);
      expect(first).toMatchObject({ verdict: "taken", used: 1 });
      expect(together).toEqual(first);
      expect(await limiter.take(charge, BUDGET_MS)).toEqual(first);
      expect(await limiter.used(charge.org, "map_loads")).toBe(1);
      expect(await linesOf(limiter, charge.request_id)).toHaveLength(1);
      expect(await take({ key: charge.key, rate, meter: null })).toMatchObject({ verdict: "taken" });
    });

    test("calls of one request id are charged each: only the charge id makes a repeat", async () => {
      const [org, request_id] = [freshOrg(), `run-${randomUUID()}`];
      await take({ org, request_id });
      await take({ org, request_id });
      expect(await limiter.used(org, "map_loads")).toBe(2);
    });

    test("a refund counts once, however often it is asked for", async () => {
      const charge = aTake({ org: freshOrg() });
      await limiter.take(charge, BUDGET_MS);
      await take({ org: charge.org });
      await Promise.all([1, 2, 3].map(() => limiter.refund(refundOf(charge), BUDGET_MS)));
      await limiter.refund(refundOf(charge), BUDGET_MS);
      expect(await limiter.used(charge.org, "map_loads")).toBe(1);
      expect((await linesOf(limiter, charge.request_id)).map(({ kind }) => kind)).toEqual(["charge", "refund"]);
    });

    test("a charge that arrives after its refund is neither admitted nor charged nor written down", async () => {
      const late = aTake({ org: freshOrg() });
      await limiter.refund(refundOf(late), BUDGET_MS);
      await expect(limiter.take(late, BUDGET_MS)).rejects.toThrow(Unavailable);
      await expect(limiter.take(late, BUDGET_MS)).rejects.toThrow(Unavailable);
      expect(await limiter.used(late.org, "map_loads")).toBe(0);
      expect(await linesOf(limiter, late.request_id)).toEqual([]);
    });

    test("a repeat of a refunded charge is not admitted", async () => {
      const charge = aTake({ org: freshOrg() });
      await limiter.take(charge, BUDGET_MS);
      await limiter.refund(refundOf(charge), BUDGET_MS);
      await expect(limiter.take(charge, BUDGET_MS)).rejects.toThrow(Unavailable);
      expect(await limiter.used(charge.org, "map_loads")).toBe(0);
    });

    test("what is refunded may be used by another call", async () => {
      const meter = { name: "map_loads", amount: 1, cap: 1 } as const;
      const charge = aTake({ org: freshOrg(), meter });
      await limiter.take(charge, BUDGET_MS);
      await limiter.refund(refundOf(charge), BUDGET_MS);
      expect(await take({ org: charge.org, meter })).toMatchObject({ verdict: "taken", used: 1 });
    });

    test("charges and refunds mixed at once leave what the ledger says", async () => {
      const [org, run] = [freshOrg(), `run-${randomUUID()}`];
      const charges = Array.from({ length: 60 }, (_, i) => aTake({ org, request_id: `${run}-${i}` }));
      await Promise.all(
        charges.flatMap((charge, i) => [
          limiter.take(charge, BUDGET_MS).catch(() => undefined),
          ...(i % 2 === 0 ? [limiter.refund(refundOf(charge), BUDGET_MS)] : []),
        ]),
      );
      const lines = await linesOf(limiter, run);
      const sum = lines.reduce((total, { kind, amount }) => total + (kind === "charge" ? amount : -amount), 0);
      expect(sum).toBe(30);
      expect(await limiter.used(org, "map_loads")).toBe(30);
    });

    test("the ledger has each charge with its owner, oldest first, by the run's prefix", async () => {
      const [org, run] = [freshOrg(), `run-${randomUUID()}`];
      for (const i of [1, 2, 3])
        await take({ org, key: "key_l", request_id: `${run}-${i}`, charge_id: `${run}-c${i}` });
      await take({ org });
      const lines = await linesOf(limiter, run);
      expect(lines.map(({ request_id }) => request_id)).toEqual([`${run}-1`, `${run}-2`, `${run}-3`]);
      expect(lines[0]).toEqual({
        charge_id: `${run}-c1`,
        request_id: `${run}-1`,
        org,
        key: "key_l",
        meter: "map_loads",
        kind: "charge",
        amount: 1,
        window: expect.stringMatching(/^\d{4}-\d\d$/),
        at: expect.any(Number),
      });
      expect(Math.abs((lines[0]?.at ?? 0) - Date.now())).toBeLessThan(DAY_MS);
    });

    test("a long ledger comes whole", async () => {
      const run = `run-${randomUUID()}`;
      await Promise.all(Array.from({ length: 1_200 }, (_, i) => take({ org: run, request_id: `${run}-${i}` })));
      const ids = (await linesOf(limiter, run)).map(({ request_id }) => request_id);
      expect(new Set(ids).size).toBe(1_200);
      expect(ids).toHaveLength(1_200);
    });

    test("what an operator sets is what counts", async () => {
      const org = freshOrg();
      await limiter.setUsed(org, "map_loads", 25);
      expect(await limiter.used(org, "map_loads")).toBe(25);
      expect(await take({ org, meter: { name: "map_loads", amount: 1, cap: 25 } })).toMatchObject({
        verdict: "over_cap",
        used: 25,
      });
    });

    test("a new month starts at nothing, and a refund credits the month of its charge", async () => {
      const meter = { name: "map_loads", amount: 1, cap: 1 } as const;
      const charge = aTake({ org: freshOrg(), meter });
      const before = await limiter.take(charge, BUDGET_MS);
      const { org } = charge;
      try {
        await limiter.setClockOffset(31 * DAY_MS);
        const after = await take({ org, meter });
        expect(after).toMatchObject({ verdict: "taken", used: 1 });
        if (before.verdict !== "taken" || after.verdict !== "taken") throw new Error("expected both to be taken");
        expect(after.window > before.window).toBe(true);
        await limiter.refund(refundOf(charge), BUDGET_MS);
        expect(await limiter.used(org, "map_loads")).toBe(1);
        const lines = await linesOf(limiter, charge.request_id);
        expect(lines.map(({ kind, window }) => [kind, window])).toEqual([
          ["charge", before.window],
          ["refund", before.window],
        ]);
      } finally {
        await limiter.setClockOffset(0);
      }
      expect(await limiter.used(org, "map_loads")).toBe(0);
      expect(await take({ org, meter })).toMatchObject({ verdict: "taken" });
    });

    test("a shift of the clock neither fills nor empties a rate bucket", async () => {
      const key = randomUUID();
      const rate = { perS: 0.001, burst: 2 };
      await take({ key, rate, meter: null });
      try {
        await limiter.setClockOffset(31 * DAY_MS);
        expect(await take({ key, rate, meter: null })).toMatchObject({ verdict: "taken" });
        expect(await take({ key, rate, meter: null })).toMatchObject({ verdict: "rate_limited" });
      } finally {
        await limiter.setClockOffset(0);
      }
      expect(await take({ key, rate, meter: null })).toMatchObject({ verdict: "rate_limited" });
    });
  });
};
