/** Stages about single answers and allowances: what is admitted, answered and charged. */
import type { Product } from "../../contract/routes.ts";
import { pause } from "../../supervision/waiting.ts";
import type { CallerName, TargetView } from "../../workload/callers/target-view.ts";
import { type CredentialRef, exchangeStep, type Step, type StepWish, stepOf } from "../../workload/step.ts";
import { smoke, smokeRound } from "../../workload/stories/smoke.ts";
import { REVOCATION_BUDGET_MS } from "../deployment.ts";
import type { MiniStage } from "../stage-bench.ts";

const SEED = 1;
/** In the allowlist of every seeded publishable key (`platform/seed.ts`). */
const SEED_ORIGIN = "https://app.example";
/** How much older than the revocation budget a judge accepts a record. */
const RECORD_MARGIN_MS = 150;

const role = (name: string): CallerName => `role:${name}`;
const session = (product: Product): CredentialRef => ({ as: "session", of: role("publishable"), product });
const NOT_JSON = { is: "malformed", text: "not json" } as const;

/** Calls that fail two checks at once, which tests the order of checks (items 69, 81). */
const doubleFaults = (view: TargetView): Step[] => {
  const wishes: StepWish[] = [
    { route: "sdk.sessions", credential: { as: "none" }, body: NOT_JSON },
    {
      route: "sdk.sessions",
      credential: { as: "publishable", of: role("revoked") },
      body: NOT_JSON,
      origin: "foreign",
    },
    { route: "sdk.sessions", credential: { as: "server", of: role("server") }, body: NOT_JSON },
    { route: "sdk.sessions", credential: { as: "publishable", of: role("publishable") }, body: NOT_JSON },
    { route: "chat.control", credential: { as: "garbage" }, body: NOT_JSON },
    { route: "chat.control", credential: { as: "publishable", of: role("publishable") }, body: NOT_JSON },
    { route: "chat.control", credential: { as: "server", of: role("server_foreign_ip") }, body: NOT_JSON },
    { route: "design.analyze", credential: { as: "server", of: role("server_no_design") }, body: NOT_JSON },
    { route: "design.styles", credential: { as: "server", of: role("server_no_design") }, origin: "foreign" },
    { route: "design.styles", credential: session("chat"), origin: "foreign" },
    { route: "maps.tiles", credential: session("chat"), origin: "foreign" },
  ];
  return wishes.map((wish, n) => stepOf(view, n, wish));
};

/** An origin that starts with the listed one. */
const lookalike = (view: TargetView): Step => {
  const credential = { as: "publishable", of: role("publishable") } as const;
  const step = stepOf(view, 0, { route: "sdk.sessions", credential, origin: "foreign" });
  return { ...step, headers: { origin: `${SEED_ORIGIN}.evil.example` } };
};

/** Every route called rightly and wrongly in every way that a caller can provoke alone. */
export const answers: MiniStage = {
  options: { tenants: [] },
  play: async ({ view, send, sendAll }) => {
    const round = Array.from({ length: smokeRound(view) }, (_, i) => smoke.plan(SEED, i, view)).flat();
    // Begins the stage: earlier changes of records are settled one revocation budget later.
    await send(stepOf(view, 0, { route: "design.styles", credential: { as: "server", of: "role:server" } }));
    await pause(REVOCATION_BUDGET_MS + RECORD_MARGIN_MS);
    await sendAll([...round, ...doubleFaults(view), lookalike(view)], 12);
  },
};

const mints = (view: TargetView, org: string, count: number): Step[] =>
  Array.from({ length: count }, (_, n) => exchangeStep(view, n, `tenant:${org}`, "tile"));

const loads = (view: TargetView, org: string, count: number): Step[] =>
  Array.from({ length: count }, (_, n) =>
    stepOf(view, n, { route: "maps.loads", credential: { as: "server", of: `tenant:${org}` } }),
  );

/** Takes from the lists in turn, so that organizations alternate. */
const interleaved = (...lists: Step[][]): Step[] =>
  Array.from({ length: Math.max(...lists.map(({ length }) => length)) }, (_, at) =>
    lists.flatMap((list) => list[at] ?? []),
  ).flat();

/** Many map loads at once across the allowance of Free and paid organizations, and a client that repeats its id. */
export const quotaEdge: MiniStage = {
  options: {
    tenants: [
      { org: "org_free", tier: "Free", allowance: 10, used: 0 },
      { org: "org_begun", tier: "Free", allowance: 10, used: 6 },
      { org: "org_paid", tier: "Pro", allowance: 3, used: 0 },
      { org: "org_large", tier: "Pro", allowance: 1_000_000, used: 0 },
      { org: "org_clumsy", tier: "Free", allowance: 4, used: 0 },
    ],
  },
  play: async ({ stage, view, send, sendAll }) => {
    await sendAll(
      interleaved(
        mints(view, "org_free", 24),
        mints(view, "org_begun", 16),
        mints(view, "org_paid", 16),
        loads(view, "org_paid", 16),
        loads(view, "org_large", 16),
      ),
    );
    // One at a time, so that calls in flight cannot hide what is left of an allowance.
    for (const org of ["org_free", "org_begun", "org_paid"]) await sendAll(mints(view, org, 3), 1);
    for (const step of mints(view, "org_clumsy", 9)) await send(step, `mutants.${stage}.the-same`);
  },
};

const DAY_MS = 86_400_000;

/** Organizations that have used up their month, before and after the next one begins. */
export const monthEdge: MiniStage = {
  options: {
    tenants: [
      { org: "org_free", tier: "Free", allowance: 5, used: 5 },
      { org: "org_paid", tier: "Pro", allowance: 2, used: 10 },
    ],
  },
  play: async ({ view, sendAll, operate, mark }) => {
    await sendAll(interleaved(mints(view, "org_free", 2), mints(view, "org_paid", 2)));
    const now = new Date();
    const middle = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1, 1) + 14 * DAY_MS;
    await operate("PATCH", "/deployment", { clock_offset_ms: middle - now.getTime() });
    mark("new-month");
    await sendAll(interleaved(mints(view, "org_free", 3), mints(view, "org_paid", 3)), 1);
    await sendAll(mints(view, "org_free", 4), 1);
  },
};
