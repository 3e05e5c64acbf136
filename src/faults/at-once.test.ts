import { expect, test } from "vitest";
import { atOnce, type FaultInjector } from "./fault.ts";

const did: string[] = [];
const injector = (name: string, more: Partial<FaultInjector> = {}): FaultInjector => ({
  stream: "both",
  undo: { how: "nothing" },
  notes: [name],
  injectMs: 1,
  effectMs: 2,
  healMs: 3,
  inject: async () => void did.push(`break ${name}`),
  shows: async () => true,
  heal: async () => {
    did.push(`heal ${name}`);
    return [];
  },
  ...more,
});
const still = new AbortController().signal;

test("put in in order, taken away in the other, also where one cannot be mended", async () => {
  did.length = 0;
  const stuck = injector("b", { heal: () => Promise.reject(new Error("b is stuck")) });
  const both = atOnce([injector("a"), stuck]);
  await both.inject(still);
  await expect(both.heal(still)).rejects.toThrow("b is stuck");
  expect(did).toEqual(["break a", "break b", "heal a"]);
  expect(both).toMatchObject({ injectMs: 2, effectMs: 4, healMs: 6, notes: ["a", "b"] });
});

test("healed in the order of putting in, where one has to be well for the next to be mended", async () => {
  did.length = 0;
  await atOnce([injector("a"), injector("b")], true).heal(still);
  expect(did).toEqual(["heal a", "heal b"]);
});

test("it is there only when all of them are, and callers are asked only where nothing else can be", async () => {
  const hidden = injector("hidden", { shows: async () => false });
  expect(await atOnce([injector("a"), hidden]).shows?.()).toBe(false);
  const unseen = injector("unseen", { shows: null });
  expect(await atOnce([injector("a"), unseen]).shows?.()).toBe(true);
  expect(atOnce([unseen, unseen]).shows).toBeNull();
});
