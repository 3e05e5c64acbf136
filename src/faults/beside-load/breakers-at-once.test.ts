import { expect, test } from "vitest";
import type { Breaker } from "./breaker.ts";
import { breakersAtOnce } from "./breakers-at-once.ts";

const did: string[] = [];
const breaker = (name: string, more: Partial<Breaker> = {}): Breaker => ({
  stream: "both",
  undo: { how: "nothing" },
  notes: [name],
  injectMs: 1,
  effectMs: 2,
  healMs: 3,
  inject: async () => void did.push(`break ${name}`),
  showsAtPart: async () => true,
  heal: async () => {
    did.push(`heal ${name}`);
    return [];
  },
  ...more,
});
const still = new AbortController().signal;

test("put in in order, taken away in the other, also where one cannot be mended", async () => {
  did.length = 0;
  const stuck = breaker("b", { heal: () => Promise.reject(new Error("b is stuck")) });
  const both = breakersAtOnce([breaker("a"), stuck]);
  await both.inject(still);
  await expect(both.heal(still)).rejects.toThrow("b is stuck");
  expect(did).toEqual(["break a", "break b", "heal a"]);
  expect(both).toMatchObject({ injectMs: 2, effectMs: 4, healMs: 6, notes: ["a", "b"] });
});

test("healed in the order of putting in, where one has to be well for the next to be mended", async () => {
  did.length = 0;
  await breakersAtOnce([breaker("a"), breaker("b")], true).heal(still);
  expect(did).toEqual(["heal a", "heal b"]);
});

test("it is there only when all of them are, and callers are asked only where nothing else can be", async () => {
  const hidden = breaker("hidden", { showsAtPart: async () => false });
  expect(await breakersAtOnce([breaker("a"), hidden]).showsAtPart?.()).toBe(false);
  const unseen = breaker("unseen", { showsAtPart: null });
  expect(await breakersAtOnce([breaker("a"), unseen]).showsAtPart?.()).toBe(true);
  expect(breakersAtOnce([unseen, unseen]).showsAtPart).toBeNull();
});
