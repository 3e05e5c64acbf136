/**
 * P12: whatever state the links to the limiter and the key service are in, an answer is the normal one, or the refusal that
 * says which dependency is away; the first call after healing is answered as if nothing had been; and in the end exactly
 * the mints that were answered are charged.
 */
import fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { LINK_FAULTS } from "../src/faults/link-faults.ts";
import { HEALTHY, type Parts } from "../src/platform/parts.ts";
import { startForTests, toxiproxyOrSkip } from "../src/tools/toxiproxy.fixture.ts";
import type { ToxiproxyServer } from "../src/tools/toxiproxy-server.ts";
import { examine } from "./laws/examine.ts";
import {
  anyFaultsLeaveAllowedAnswers,
  CALM,
  FAULTS_OPTIONS,
  judge,
  type Kind,
  prepare,
  type State,
  TIME_BUDGET_MS,
} from "./laws/faults-law.ts";
import { law } from "./laws/law.ts";
import { FAILING_OPEN, FAULTS, type OpenLinks, type RealApi, startRealApi } from "./rigs/real-api.ts";
import { againIfStalled } from "./rigs/stalls.ts";
import { toxicLinks } from "./rigs/toxic-links.ts";

const withApi = async (
  parts: Parts,
  judged: (api: RealApi, kinds: Record<string, Kind>) => Promise<void>,
  openLinks?: OpenLinks,
) => {
  const api = await startRealApi(FAULTS_OPTIONS, parts, {
    hangsMs: TIME_BUDGET_MS,
    ...(openLinks === undefined ? {} : { openLinks }),
  });
  try {
    await judged(api, await prepare(api));
  } finally {
    await api.close();
  }
};

const eachLinkThenBoth = async (api: RealApi, kinds: Record<string, Kind>, fault: string): Promise<void> => {
  for (const state of [
    { ...CALM, limiter: fault },
    { ...CALM, keys: fault },
    { keys: fault, limiter: fault },
  ]) {
    await againIfStalled(() => judge(api, kinds, [state]));
  }
};

// A deployment for each fault, side by side: most of the time is spent in waiting for budgets.
test.concurrent.each(FAULTS)("P12 %s on the limiter, on the key service, on both", (fault) =>
  withApi(HEALTHY, (api, kinds) => eachLinkThenBoth(api, kinds, fault)),
);

const toxiproxy = toxiproxyOrSkip();
describe(`P12 over a real toxiproxy${toxiproxy === null ? " (skipped: toxiproxy is not built)" : ""}`, () => {
  let server: ToxiproxyServer;
  beforeAll(async () => {
    if (toxiproxy !== null) server = await startForTests(toxiproxy);
  });
  afterAll(() => server?.stop());

  test.skipIf(toxiproxy === null).concurrent.each(LINK_FAULTS)(
    "%s on the limiter, on the key service, on both",
    (fault) =>
      withApi(HEALTHY, (api, kinds) => eachLinkThenBoth(api, kinds, fault), toxicLinks(server.toxiproxy, fault)),
  );
});

let api: RealApi;
let kinds: Record<string, Kind>;
beforeAll(async () => {
  api = await startRealApi(FAULTS_OPTIONS, HEALTHY, { hangsMs: TIME_BUDGET_MS });
  kinds = await prepare(api);
});
afterAll(() => api?.close());

law(
  "P12 any sequence of faults on both links leaves only allowed answers, and none after healing",
  () => anyFaultsLeaveAllowedAnswers(FAULTS, () => ({ api, kinds })),
  { quick: 5, nightly: 300 },
);

test.concurrent.each<[string, Partial<Parts>]>([
  ["lets everybody in while the limiter is away", FAILING_OPEN],
  [
    "takes a key service that is away for an unknown key",
    {
      keyLink: (keys) => ({ find: (lookup, budgetMs) => keys.find(lookup, budgetMs).catch(() => null) }),
      keyCache: { maxAgeMs: 0, singleFlight: true },
    },
  ],
  ["keeps what a lost answer charged", { settlement: { refunds: () => false } }],
])("P12 condemns a deployment that %s", (name, parts) =>
  withApi({ ...HEALTHY, ...parts }, async (spoilt, own) => {
    const state: State = { keys: name.includes("key service") ? "refused" : "none", limiter: "truncated-reply" };
    const property = fc.asyncProperty(fc.constant<State[]>([state]), (states) => judge(spoilt, own, states));
    expect(await examine(property, { seed: 1, runs: 1, shrinks: false })).not.toBeNull();
  }),
);
