import { describe, expect, test } from "vitest";
import type { Limiter, Refund, Take } from "../ports.ts";
import { until } from "../start-platform.fixture.ts";
import { createSettlement } from "./settlement.ts";

const take = (n: number, meter: Take["meter"] = { name: "map_loads", amount: 1, cap: 5 }): Take => ({
  charge_id: `c${n}`,
  request_id: `r.${n}`,
  org: "org_a",
  key: "key_a",
  rate: null,
  meter,
});

/** The refund side of a limiter that can be away; it keeps what it confirmed. */
const limiterThat = (state: { isAway: boolean }) => {
  const confirmed: Refund[] = [];
  let tries = 0;
  let most = 0;
  let running = 0;
  const refund: Limiter["refund"] = async (item) => {
    tries += 1;
    running += 1;
    most = Math.max(most, running);
    await new Promise((resolve) => setTimeout(resolve, 2));
    running -= 1;
    if (state.isAway) throw new Error("away");
    confirmed.push(item);
  };
  return { limiter: { refund } as Limiter, confirmed, tries: () => tries, most: () => most };
};

const always = { refunds: () => true };

describe("settlement", () => {
  test("undoes each charge once, by its own id", async () => {
    const { limiter, confirmed } = limiterThat({ isAway: false });
    const settlement = createSettlement(limiter, always, 100);
    for (let i = 0; i < 200; i += 1) settlement.undo(take(i), "answer-lost");
    expect(settlement.unsettled()).toBe(200);
    expect(await settlement.drain(5_000)).toBe(0);
    expect(confirmed.map(({ charge_id }) => charge_id).sort()).toEqual(
      Array.from({ length: 200 }, (_, i) => `c${i}`).sort(),
    );
    expect(confirmed[0]).toEqual({
      charge_id: "c0",
      request_id: "r.0",
      org: "org_a",
      key: "key_a",
      meter: "map_loads",
      amount: 1,
    });
  });

  test("asks a limiter that is away one at a time and ever more slowly, and settles once it is back", async () => {
    const state = { isAway: true };
    const { limiter, confirmed, tries, most } = limiterThat(state);
    const settlement = createSettlement(limiter, always, 100);
    settlement.undo(take(0), "answer-lost");
    await until("a first failure, and another try", () => tries() === 2);
    for (let i = 1; i < 100; i += 1) settlement.undo(take(i), "client-left");
    await until("some tries", () => tries() >= 4);
    expect(most()).toBe(1);
    expect(settlement.unsettled()).toBe(100);
    state.isAway = false;
    expect(await settlement.drain(5_000)).toBe(0);
    expect(new Set(confirmed.map(({ charge_id }) => charge_id)).size).toBe(100);
  });

  test("a drain gives up at its deadline and tells how many are left", async () => {
    const { limiter } = limiterThat({ isAway: true });
    const settlement = createSettlement(limiter, always, 100);
    settlement.undo(take(1), "answer-lost");
    expect(await settlement.drain(60)).toBe(1);
    settlement.close();
  });

  test("what has no meter has nothing to undo, and a policy may keep a charge", async () => {
    const { limiter, tries } = limiterThat({ isAway: false });
    createSettlement(limiter, always, 100).undo(take(1, null), "answer-lost");
    createSettlement(limiter, { refunds: (reason) => reason !== "client-left" }, 100).undo(take(2), "client-left");
    expect(tries()).toBe(0);
  });
});
