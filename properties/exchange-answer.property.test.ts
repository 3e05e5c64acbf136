/** P8: the answer of a successful exchange (2.2; items 23-26, 31-34), whatever was asked for and by whom. */
import { afterAll, beforeAll } from "vitest";
import { sessionIsShortAndNew } from "./support/exchange-law.ts";
import { law } from "./support/law.ts";
import { type RealApi, startRealApi } from "./support/real-api.ts";

let api: RealApi;
beforeAll(async () => {
  api = await startRealApi();
}, 30_000);
afterAll(() => api?.close());

law("P8 a session is short, names its product, and is a new token each time", () => sessionIsShortAndNew(() => api), {
  quick: 100,
  nightly: 5_000,
});
