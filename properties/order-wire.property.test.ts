/** P1 where it counts: over real sockets, against the order of checks written a second time. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { EXCHANGE_ORDER, HEALTHY_ORDERS, RUNTIME_ORDER } from "../src/core/order.ts";
import { examine } from "./laws/examine.ts";
import { law } from "./laws/law.ts";
import { firstFailingCheckDecidesOverTheWire } from "./laws/order-wire-law.ts";
import { MODEL_OPTIONS } from "./laws/real-server-law.ts";
import { FORGETFUL, type RealApi, startRealApi } from "./rigs/real-api.ts";

let api: RealApi;
beforeAll(async () => {
  api = await startRealApi(MODEL_OPTIONS);
});
afterAll(() => api?.close());

law(
  "P1 over real sockets the answer is that of the first failing check",
  () => firstFailingCheckDecidesOverTheWire(() => api),
  { quick: 150, nightly: 5_000 },
);

test.each([
  ["exchange", "originIsListed", EXCHANGE_ORDER],
  ["runtime", "serverKeyIsNotInBrowser", RUNTIME_ORDER],
] as const)("P1 condemns a server whose order of the %s lacks %s", async (surface, left, table) => {
  const order = Object.entries(table).flatMap(([name, check]) => (name === left ? [] : [check]));
  const spoilt = await startRealApi(MODEL_OPTIONS, { ...FORGETFUL, orders: { ...HEALTHY_ORDERS, [surface]: order } });
  try {
    const property = firstFailingCheckDecidesOverTheWire(() => spoilt);
    expect(await examine(property, { seed: 1, runs: 500, shrinks: false })).not.toBeNull();
  } finally {
    await spoilt.close();
  }
});
