/**
 * Model-based: whatever is done to a deployment and in whatever order, the real server over real sockets answers as the
 * model does, which decides with the core; once it is healed its meters and its ledger say what the model says, and no
 * credential stands in its log.
 */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { fits } from "../src/core/meters.ts";
import { sessionClaims } from "../src/platform/api/sessions.ts";
import { LIMITER_DECISIONS } from "../src/platform/limiter/store.ts";
import { HEALTHY, type Parts } from "../src/platform/parts.ts";
import { examine } from "./laws/examine.ts";
import { law } from "./laws/law.ts";
import { MODEL_OPTIONS, serverAnswersAsModel } from "./laws/real-server-law.ts";
import { FAILING_OPEN, FORGETFUL, type RealApi, startRealApi } from "./rigs/real-api.ts";

let api: RealApi;
beforeAll(async () => {
  api = await startRealApi(MODEL_OPTIONS);
});
afterAll(() => api?.close());

law(
  "the real server answers as the model does, through changes, months, faults and healing",
  (replayPath) => serverAnswersAsModel(() => api, replayPath),
  { quick: 20, nightly: 2_000 },
);

describe("the model condemns a server that", () => {
  const spoilt: [string, Partial<Parts>][] = [
    ["trusts a key that it remembers", { keyCache: { maxAgeMs: 60_000, singleFlight: true } }],
    ["mints for an hour", { sessionClaims: (mint) => sessionClaims(mint, 3_600) }],
    ["forgets that a month is over", { limiterDecisions: { ...LIMITER_DECISIONS, windowOf: () => "2026-05" } }],
    [
      "admits one too many",
      {
        limiterDecisions: {
          ...LIMITER_DECISIONS,
          fits: (used, amount, cap) => fits(used, amount, cap === null ? null : cap + 1),
        },
      },
    ],
    ["keeps the charge of a lost answer", { settlement: { refunds: () => false } }],
    [
      "prints the token",
      { requestLog: (entry) => ({ ...HEALTHY.requestLog(entry), said: `Bearer ${entry.credential}` }) },
    ],
    ["lets everybody in while the limiter is away", FAILING_OPEN],
  ];
  test.each(spoilt)("%s", async (_, parts) => {
    const server = await startRealApi(MODEL_OPTIONS, { ...FORGETFUL, ...parts });
    try {
      const property = serverAnswersAsModel(() => server);
      const found = await examine(property, { seed: 3, runs: 300, shrinks: false });
      expect(found).not.toBeNull();
    } finally {
      await server.close();
    }
  });
});
