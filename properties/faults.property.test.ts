/**
 * P12: whatever state the links to the limiter and the key service are in, an answer is the normal one, or the refusal that
 * says which dependency is away; the first call after healing is answered as if nothing had been; and in the end exactly
 * the mints that were answered are charged.
 */
import { randomUUID } from "node:crypto";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readAnswer } from "../src/contract/envelopes.ts";
import type { LedgerLine } from "../src/core/ledger.ts";
import { HEALTHY, type Parts } from "../src/platform/parts.ts";
import { examine } from "./support/examine.ts";
import { law } from "./support/law.ts";
import { FAULTS, type Fault, type Link, type RealApi, type Request, startRealApi } from "./support/real-api.ts";

type State = Record<Link, Fault>;
type Kind = { request: Request; normal: string; needs: readonly Link[] };

const ORIGIN = "https://app.example";
const CALM: State = { keys: "none", limiter: "none" };
// Shorter than the default, because a lost answer is waited for.
const OPTIONS = { keyServiceBudgetMs: 400 };
const POST = { method: "POST" as const, path: "/sdk/sessions", origin: ORIGIN };

/** One organization, and a call of each kind that meets the two dependencies in its own way. */
const prepare = async (api: RealApi): Promise<Record<string, Kind>> => {
  const { id } = (await api.operate("POST", "/orgs", { tier: "Pro" })).json as { id: string };
  const key = async (kind: string, status = "valid"): Promise<string> => {
    const record = { org_id: id, kind, scopes: ["ai", "design", "maps"], allowed_origins: [ORIGIN], status };
    return ((await api.operate("POST", "/keys", record)).json as { key: string }).key;
  };
  const [publishable, server, revoked] = [
    await key("publishable"),
    await key("server"),
    await key("server", "revoked"),
  ];
  const minted = await api.call({ ...POST, credential: publishable, body: { product: "editor" } });
  const { session_token: token } = minted.json as { session_token: string };
  const styles = { method: "GET" as const, path: "/design/styles" };
  const both = ["keys", "limiter"] as const;
  return {
    chat: { request: { ...POST, credential: publishable, body: { product: "chat" } }, normal: "200", needs: both },
    tile: { request: { ...POST, credential: publishable, body: { product: "tile" } }, normal: "200", needs: both },
    session: { request: { ...styles, credential: token, origin: ORIGIN }, normal: "200", needs: both },
    server: { request: { ...styles, credential: server }, normal: "200", needs: both },
    revoked: { request: { ...styles, credential: revoked }, normal: "401", needs: ["keys"] },
    unknown: { request: { ...styles, credential: "svc_sk_live_nobody0000000000" }, normal: "401", needs: ["keys"] },
    nobody: { request: styles, normal: "401", needs: [] },
  };
};

const AWAY: Readonly<Record<Link, string>> = { keys: "503", limiter: "429 limiter_unavailable" };

/** Goes through the states with one call of each kind in each, heals, and looks at what was charged. */
const judge = async (api: RealApi, kinds: Record<string, Kind>, states: State[]): Promise<void> => {
  const run = `run-${randomUUID()}`;
  let sent = 0;
  let admitted = 0;
  const ask = async (name: string, { request, normal, needs }: Kind, state: State): Promise<void> => {
    sent += 1;
    const heard = await api.call({ ...request, requestId: `${run}-${sent}` });
    const { outcome } = readAnswer(heard.status, heard.text);
    const allowed = [normal, ...needs.filter((link) => state[link] !== "none").map((link) => AWAY[link])];
    expect({ name, state, allowed }).toMatchObject({ allowed: expect.arrayContaining([outcome]) });
    // An admitted call was charged for certain, so a limiter that cannot answer lets nobody in.
    if (outcome === "200") expect([name, state.limiter]).toEqual([name, "none"]);
    if (name === "tile" && outcome === "200") admitted += 1;
  };
  for (const state of states) {
    for (const link of ["keys", "limiter"] as const) await api.setFault(link, state[link]);
    await Promise.all(Object.entries(kinds).map(([name, kind]) => ask(name, kind, state)));
  }
  for (const link of ["keys", "limiter"] as const) await api.setFault(link, "none");
  for (const [name, kind] of Object.entries(kinds)) await ask(name, kind, CALM);
  await api.settled();
  const net = new Map<string, number>();
  const { text } = await api.operate("GET", `/ledger?run=${run}`);
  for (const line of text.split("\n").filter((line) => line !== "")) {
    const { charge_id, kind } = JSON.parse(line) as LedgerLine;
    net.set(charge_id, (net.get(charge_id) ?? 0) + (kind === "charge" ? 1 : -1));
  }
  expect([...net.values()].filter((sum) => sum !== 0)).toEqual(new Array(admitted).fill(1));
};

const withApi = async (parts: Parts, judged: (api: RealApi, kinds: Record<string, Kind>) => Promise<void>) => {
  const api = await startRealApi(OPTIONS, parts);
  try {
    await judged(api, await prepare(api));
  } finally {
    await api.close();
  }
};

// A deployment for each fault, side by side: most of the time is spent in waiting for budgets.
test.concurrent.each(FAULTS)("P12 %s on the limiter, on the key service, on both", { timeout: 60_000 }, (fault) =>
  withApi(HEALTHY, async (api, kinds) => {
    await judge(api, kinds, [{ ...CALM, limiter: fault }]);
    await judge(api, kinds, [{ ...CALM, keys: fault }]);
    await judge(api, kinds, [{ keys: fault, limiter: fault }]);
  }),
);

let api: RealApi;
let kinds: Record<string, Kind>;
beforeAll(async () => {
  api = await startRealApi(OPTIONS, HEALTHY);
  kinds = await prepare(api);
}, 30_000);
afterAll(() => api?.close());

const faultArb = fc.constantFrom<Fault>("none", ...FAULTS);
const statesArb = fc.array(fc.record({ keys: faultArb, limiter: faultArb }), { minLength: 1, maxLength: 4 });

law(
  "P12 any sequence of faults on both links leaves only allowed answers, and none after healing",
  () => fc.asyncProperty(statesArb, (states) => judge(api, kinds, states)),
  { quick: 5, nightly: 300 },
);

test.concurrent.each<[string, Partial<Parts>]>([
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
  [
    "takes a key service that is away for an unknown key",
    {
      keyLink: (keys) => ({
        bySecretHash: (hash, budgetMs) => keys.bySecretHash(hash, budgetMs).catch(() => null),
        byId: (id, budgetMs) => keys.byId(id, budgetMs).catch(() => null),
      }),
      keyCache: { maxAgeMs: 0, singleFlight: true },
    },
  ],
  ["keeps what a lost answer charged", { settlement: { refunds: () => false } }],
])("P12 condemns a deployment that %s", { timeout: 60_000 }, (name, parts) =>
  withApi({ ...HEALTHY, ...parts }, async (spoilt, own) => {
    const state: State = { keys: name.includes("key service") ? "refused" : "none", limiter: "truncated-reply" };
    const property = fc.asyncProperty(fc.constant<State[]>([state]), (states) => judge(spoilt, own, states));
    expect(await examine(property, { seed: 1, runs: 1, shrinks: false })).not.toBeNull();
  }),
);
