/**
 * Model-based: whatever is done to a deployment and in whatever order, the real server over real sockets answers as the
 * model does, which decides with the core; once it is healed its meters and its ledger say what the model says, and no
 * credential stands in its log.
 */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { findSecrets } from "../src/contract/credentials.ts";
import type { LedgerLine } from "../src/core/ledger.ts";
import { fits } from "../src/core/meters.ts";
import type { KeyRecord, Organization } from "../src/core/records.ts";
import { sessionClaims } from "../src/platform/api/sessions.ts";
import { LIMITER_DECISIONS } from "../src/platform/limiter/table-store.ts";
import { HEALTHY, type Parts } from "../src/platform/parts.ts";
import { commandArb, heal, middleOfMonth, mint, ORIGIN, type Real, setClock } from "./support/commands.ts";
import { examine } from "./support/examine.ts";
import { law } from "./support/law.ts";
import { CAPS, Model } from "./support/model.ts";
import { FORGETFUL, type RealApi, startRealApi } from "./support/real-api.ts";

// Shorter budgets than the defaults where a lost answer is waited for.
const OPTIONS = { keyServiceBudgetMs: 400 };

let api: RealApi;
beforeAll(async () => {
  api = await startRealApi(OPTIONS);
}, 30_000);
afterAll(() => api?.close());

/** Two organizations with tiny allowances and a full key each, and a server key. */
const setup = async (api: RealApi): Promise<{ model: Model; real: Real }> => {
  const model = new Model();
  const real: Real = { api, run: `run-${randomUUID()}`, sent: 0 };
  await heal(model, real);
  await setClock(model, real, middleOfMonth(Date.now(), 1) - Date.now());
  const caps = { global_in_flight: CAPS.globalInFlight, org_in_flight: CAPS.orgInFlight };
  await api.operate("PATCH", "/deployment", { sessions: "enabled", ...caps });
  for (const [tier, style] of [
    ["Pro", "svc-dusk"],
    ["Free", null],
  ] as const) {
    const fields = { tier, map_load_allowance: 2, key_limit: 4, basemap_style_id: style };
    const { map_loads_used: _, ...org } = (await api.operate("POST", "/orgs", fields)).json as Organization & {
      map_loads_used: number;
    };
    model.orgs.set(org.id, org);
    for (const kind of ["publishable", "server"] as const) {
      if (kind === "server" && tier === "Free") continue;
      const record = { org_id: org.id, kind, scopes: ["ai", "design", "maps"], allowed_origins: [ORIGIN] };
      const { key: secret, ...key } = (await api.operate("POST", "/keys", record)).json as KeyRecord & { key: string };
      model.keys.push({ key, secret });
    }
  }
  for (const product of ["chat", "editor"] as const) await mint(0, product, "app", false).run(model, real);
  return { model, real };
};

/** After healing: meters as in the model, each admitted call charged once, nothing else (design.md, "Charges"). */
const agree = async (model: Model, real: Real): Promise<void> => {
  const { api } = real;
  await heal(model, real);
  for (const id of model.orgs.keys()) {
    const { json } = await api.operate("GET", `/orgs/${id}`);
    expect(json).toMatchObject({ map_loads_used: model.used(id, "map_loads") });
  }
  const net = new Map<string, number>();
  const { text } = await api.operate("GET", `/ledger?run=${real.run}`);
  for (const line of text.split("\n").filter((line) => line !== "")) {
    const { charge_id, kind, amount } = JSON.parse(line) as LedgerLine;
    net.set(charge_id, (net.get(charge_id) ?? 0) + (kind === "charge" ? amount : -amount));
  }
  expect([...net.values()].filter((sum) => sum !== 0 && sum !== 1)).toEqual([]);
  expect([...net.values()].filter((sum) => sum === 1)).toHaveLength(model.charged);
};

/** P11 in the wild: of every credential that the run used, none stands in the log. */
const logIsClean = (model: Model, log: string): void => {
  expect(log).not.toBe("");
  expect(findSecrets(log)).toEqual([]);
  const secrets = [...model.keys.map(({ secret }) => secret), ...model.tokens.map(({ token }) => token)];
  expect(secrets.filter((secret) => log.includes(secret))).toEqual([]);
};

const serverAnswersAsModel = (open: () => RealApi, replayPath?: string) =>
  fc.asyncProperty(
    fc.commands([commandArb], { maxCommands: 40, size: "max", ...(replayPath === undefined ? {} : { replayPath }) }),
    async (commands) => {
      const { model, real } = await setup(open());
      await fc.asyncModelRun(() => ({ model, real }), commands);
      await agree(model, real);
      logIsClean(model, real.api.takeLog());
    },
  );

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
    [
      "lets everybody in while the limiter is away",
      {
        limiterLink: (limiter) => ({
          ...limiter,
          take: (take, budgetMs) =>
            limiter.take(take, budgetMs).catch(() => ({ verdict: "taken" as const, used: 0, window: "2026-05" })),
        }),
      },
    ],
  ];
  test.each(spoilt)("%s", { timeout: 120_000 }, async (_, parts) => {
    const server = await startRealApi(OPTIONS, { ...FORGETFUL, ...parts });
    try {
      const property = serverAnswersAsModel(() => server);
      const found = await examine(property, { seed: 1, runs: 300, shrinks: false });
      expect(found).not.toBeNull();
    } finally {
      await server.close();
    }
  });
});
