/** P8: the answer of a successful exchange (2.2; items 23-26, 31-34), whatever was asked for, by whom and of which deployment. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { type ExchangeServer, sessionIsShortAndNew } from "./laws/exchange-law.ts";
import { law } from "./laws/law.ts";
import { startRealApi } from "./rigs/real-api.ts";

const servers: ExchangeServer[] = [];
beforeAll(async () => {
  // The default, and the two ends of what may be configured.
  servers.push({ api: await startRealApi(), lifetimeS: 900 });
  for (const lifetimeS of [1, 1_800]) {
    servers.push({ api: await startRealApi({ sessionLifetimeS: lifetimeS }), lifetimeS });
  }
});
afterAll(() => Promise.all(servers.map(({ api }) => api.close())));

law(
  "P8 a session is short, names its product, and is a new token each time",
  () => sessionIsShortAndNew(() => servers),
  { quick: 100, nightly: 5_000 },
);

test.each([0, -1, 1_801, 3_600])("P8 a deployment with sessions of %d s does not start", async (sessionLifetimeS) => {
  await expect(startRealApi({ sessionLifetimeS })).rejects.toThrow("1 to 1800 seconds");
});
