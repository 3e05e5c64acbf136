/** Stages about single answers and allowances: what is admitted, answered and charged. */
import { pause } from "../../supervision/waiting.ts";
import type { TargetView } from "../../workload/callers/target-view.ts";
import { type CredentialRef, exchangeStep, type Step, type StepWish, stepOf } from "../../workload/step.ts";
import { smoke, smokeRound } from "../../workload/stories/smoke.ts";
import { type MiniStage, REVOCATION_BUDGET_MS } from "../stage-bench.ts";
import { callOf } from "./load.ts";

const SEED = 1;
/** The origin in the allowlist of every seeded publishable key (`platform/seed.ts`). */
const SEED_ORIGIN = "https://app.example";
/** A judge accepts key records that are this much older than the revocation budget. */
const RECORD_MARGIN_MS = 150;

const keyOf = (as: "publishable" | "server", name: string = as): CredentialRef => ({ as, of: `role:${name}` });
const CHAT: CredentialRef = { as: "session", of: "role:publishable", product: "chat" };
const BAD = { body: { is: "malformed", text: "not json" } } as const;
const FOREIGN = { origin: "foreign" } as const;

/** Calls that fail two checks at once, which tests the order of checks (items 69, 81). */
const DOUBLE_FAULTS: readonly StepWish[] = [
  { route: "sdk.sessions", credential: { as: "none" }, ...BAD },
  { route: "sdk.sessions", credential: keyOf("publishable", "revoked"), ...BAD, ...FOREIGN },
  { route: "sdk.sessions", credential: keyOf("server"), ...BAD },
  { route: "sdk.sessions", credential: keyOf("publishable"), ...BAD },
  { route: "chat.control", credential: { as: "garbage" }, ...BAD },
  { route: "chat.control", credential: keyOf("publishable"), ...BAD },
  { route: "chat.control", credential: keyOf("server", "server_foreign_ip"), ...BAD },
  { route: "design.analyze", credential: keyOf("server", "server_no_design"), ...BAD },
  { route: "design.styles", credential: keyOf("server", "server_no_design"), ...FOREIGN },
  { route: "design.styles", credential: CHAT, ...FOREIGN },
  { route: "maps.tiles", credential: CHAT, ...FOREIGN },
];

/** An origin that starts with the listed one. */
const lookalike = (view: TargetView): Step => {
  const step = stepOf(view, 0, { route: "sdk.sessions", credential: keyOf("publishable"), ...FOREIGN });
  return { ...step, headers: { origin: `${SEED_ORIGIN}.evil.example` } };
};

/** Calls every route correctly, and with every error that a single caller can provoke. */
export const answers: MiniStage = {
  options: { tenants: [] },
  play: async ({ view, send, sendAll }) => {
    const round = Array.from({ length: smokeRound(view) }, (_, i) => smoke.plan(SEED, i, view)).flat();
    // This call begins the stage: one revocation budget later, earlier changes of records count as arrived.
    await send(stepOf(view, 0, { route: "design.styles", credential: keyOf("server") }));
    await pause(REVOCATION_BUDGET_MS + RECORD_MARGIN_MS);
    const doubled = DOUBLE_FAULTS.map((wish, n) => stepOf(view, n, wish));
    await sendAll([...round, ...doubled, lookalike(view)], 12);
  },
};

const mints = (view: TargetView, org: string, count: number): Step[] =>
  Array.from({ length: count }, (_, n) => exchangeStep(view, n, `tenant:${org}`, "tile"));

const loads = (view: TargetView, org: string, count: number): Step[] =>
  Array.from({ length: count }, (_, n) => callOf(view, org, "maps.loads", n));

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
    // Sends one mint at a time, so that calls in flight cannot hide what is left of an allowance.
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
    await operate("/deployment", { clock_offset_ms: middle - now.getTime() });
    mark("new-month");
    await sendAll(interleaved(mints(view, "org_free", 3), mints(view, "org_paid", 3)), 1);
    await sendAll(mints(view, "org_free", 4), 1);
  },
};
