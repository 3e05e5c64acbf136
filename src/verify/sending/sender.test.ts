import { expect, test } from "vitest";
import { answerBeside, createLastingStrays, createOutages } from "./sender.ts";
import type { TestCall } from "./test-call.ts";

const testCall: TestCall = { route: "design.styles", credential: { as: "server", of: "role:server" }, origin: "none" };
const other: TestCall = { ...testCall, route: "design.themes" };

const start = (upAfter: number, patience = 100) => {
  let looks = 0;
  let left = patience;
  const outages = createOutages(
    async () => ++looks > upAfter,
    async () => left-- > 0,
  );
  return { outages, looks: () => looks };
};

test("what was admitted before is looked for until it is back, by one for all", async () => {
  const { outages, looks } = start(3);
  outages.seenUp(testCall);
  expect(await Promise.all([outages.end(testCall), outages.end(testCall), outages.end(testCall)])).toEqual([
    true,
    true,
    true,
  ]);
  expect(looks()).toBe(4);
});

test("nobody waits for what was never admitted", async () => {
  const { outages, looks } = start(0);
  outages.seenUp(other);
  expect(await outages.end(testCall)).toBe(false);
  expect(looks()).toBe(0);
});

test("what stays away is given up once the patience is spent, and not waited for again until it is admitted", async () => {
  const { outages, looks } = start(9, 3);
  outages.seenUp(testCall);
  expect(await outages.end(testCall)).toBe(false);
  expect(looks()).toBe(3);
  expect(await outages.end(testCall)).toBe(false);
  expect(looks()).toBe(3);
});

const served = { outcome: "200", transient: false };
const silent = { outcome: "indeterminate", transient: true };

test.each([2, 3])(
  "a dead one of %i backends that take turns is not taken for the call's own silence",
  async (backends) => {
    for (let dead = 0; dead < backends; dead++) {
      let calls = 0;
      const tried = async () => (calls++ % backends === dead ? silent : served);
      expect([served, "away"]).toContainEqual(await answerBeside(tried, tried));
    }
  },
);

test("silence is the call's own where its neighbour is served each time", async () => {
  const own = await answerBeside(
    async () => silent,
    async () => served,
  );
  expect(own).toEqual({ ...silent, transient: false });
});

test("an edge that answers so to every try of call after call gets fewer tries, until the API answers such a call", () => {
  const { tries, stayed, cleared } = createLastingStrays();
  for (let call = 0; call < 5; call += 1) {
    expect(tries("403 text/html")).toBe(4);
    stayed("403 text/html");
  }
  expect([tries("403 text/html"), tries("500 text/html")]).toEqual([2, 4]);
  cleared("403 text/html");
  expect(tries("403 text/html")).toBe(4);
});
