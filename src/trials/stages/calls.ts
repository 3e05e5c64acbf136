/** The small stages without faults: load (caps on calls in flight, the rate of a key), streams, records that change, answers, rules. */
import type { RouteName } from "../../contract/routes.ts";
import type { Claim } from "../../history/run-document.ts";
import type { SeedTenant } from "../../platform/seed.ts";
import { pause } from "../../supervision/waiting.ts";
import { createSecrets } from "../../target/secrets.ts";
import { runVerify, type VerifyOptions } from "../../verify/run-verify.ts";
import { inTurn } from "../../workload/callers/rates.ts";
import type { CallerName, TargetView } from "../../workload/callers/target-view.ts";
import { type CredentialRef, exchangeStep, type Step, type StepWish, stepOf } from "../../workload/step.ts";
import { smoke, smokeRound } from "../../workload/stories/smoke.ts";
import { type Bench, type MiniStage, REVOCATION_BUDGET_MS } from "../stage-bench.ts";

export const paid = (count: number): SeedTenant[] =>
  Array.from({ length: count }, (_, at) => ({ org: `org_t${at + 1}`, tier: "Pro", allowance: 1_000_000, used: 0 }));

export const callOf = (view: TargetView, org: string, route: RouteName, n = 0): Step =>
  stepOf(view, n, { route, credential: { as: "server", of: `tenant:${org}` } });

/** Calls of all tenants in turn, except those in `but`. */
export const callsOf = (view: TargetView, route: RouteName, count: number, but: readonly string[] = []): Step[] => {
  const orgs = view.tenants.map(({ org }) => org).filter((org) => !but.includes(org));
  return Array.from({ length: count }, (_, n) => callOf(view, inTurn(orgs, n), route, n));
};

/** Time for served streams to send their first events. */
const FIRST_EVENTS_MS = 120;
const AT_ONCE = 10;

/** As many streams as the replica's cap, and many calls while they run. */
export const overload: MiniStage = {
  options: { tenants: paid(8), limits: { global_in_flight: 8, org_in_flight: 8, service_ms: 1_000 }, tokens: 10 },
  play: async ({ view, sendAll, untilInFlight }) => {
    const quick = (): Promise<unknown> => sendAll(callsOf(view, "design.styles", 24), AT_ONCE);
    await quick();
    const held = sendAll(callsOf(view, "chat.control", 8));
    await untilInFlight(8);
    await pause(FIRST_EVENTS_MS);
    // As concurrent as the quick calls, so that the cost of refusals can be compared with theirs.
    await sendAll(callsOf(view, "design.styles", 30), AT_ONCE);
    await sendAll(callsOf(view, "chat.control", 8));
    await held;
    await quick();
  },
};

/** The number of concurrent clients: one and a half times the slots. */
const CLIENTS = 12;
const PAST_CAPACITY_MS = 4_000;
const SHED_PAUSE_MS = 60;

/** More clients than slots, for four seconds, each with its next stream as soon as one is over or refused. */
export const pastCapacity: MiniStage = {
  options: { tenants: paid(4), limits: { global_in_flight: 8, org_in_flight: 8, service_ms: 250 }, tokens: 4 },
  play: async ({ view, send, hangUp }) => {
    // A closed loop, which slows down on a busy machine, where scheduled calls would pile up in our process.
    const untilMs = performance.now() + PAST_CAPACITY_MS;
    const client = async (n: number): Promise<void> => {
      while (performance.now() < untilMs) {
        const { line } = await send(callOf(view, `org_t${1 + (n % 4)}`, "chat.control", n));
        if (line.outcome.startsWith("429")) await pause(SHED_PAUSE_MS);
      }
    };
    const all = Promise.all(Array.from({ length: CLIENTS }, (_, n) => client(n)));
    await Promise.race([all, pause(PAST_CAPACITY_MS + 400)]);
    await hangUp();
    await all;
  },
};

/** One organization fills its own cap with streams and goes on calling, others call beside it. */
export const noisy: MiniStage = {
  options: { tenants: paid(4), limits: { global_in_flight: 200, org_in_flight: 3, service_ms: 400 }, tokens: 6 },
  play: async ({ view, sendAll, untilInFlight }) => {
    const loud = "org_t1";
    const held = sendAll(Array.from({ length: 3 }, (_, n) => callOf(view, loud, "chat.control", n)));
    await untilInFlight(3);
    const more = Array.from({ length: 12 }, (_, n) => callOf(view, loud, n % 2 === 0 ? "maps.loads" : "poi.enrich", n));
    await Promise.all([
      sendAll(more),
      sendAll(callsOf(view, "maps.loads", 12, [loud]), 3),
      sendAll(callsOf(view, "design.styles", 12, [loud]), 3),
    ]);
    await held;
  },
};

const RATE = { rate_per_s: 20, burst: 10 };
/** Well above the keys' rate, for two and a half seconds. */
const pressed: Pick<MiniStage, "play"> = {
  play: async ({ view, press }) => {
    await press(callsOf(view, "design.themes", 300), 120);
  },
};

/** Two keys pressed far above their rate, over several windows of a second. */
export const rateEdge: MiniStage = {
  options: { tenants: paid(2), limits: RATE },
  ...pressed,
};

/** The same load on two replicas in turn, which share one limiter. */
export const twoReplicas: MiniStage = {
  options: { tenants: paid(2), limits: { ...RATE, replicas: 2 } },
  ...pressed,
};

const PATIENT_ROUNDS = 5;
const PATIENT_LATE_MS = 500;

/** A client alone on its key that waits exactly as long as it is asked to; again where the machine kept it waiting longer. */
export const patientClient: MiniStage = {
  options: { tenants: paid(1), limits: { rate_per_s: 0.5, burst: 2 } },
  play: async ({ view, send }) => {
    const ask = () => send(callOf(view, "org_t1", "design.styles"));
    for (let left = PATIENT_ROUNDS; left > 0; left -= 1) {
      let answer = await ask();
      while (answer.line.outcome.startsWith("2")) answer = await ask();
      const obeysMs = Number(answer.line.retry_after ?? 1) * 1000 + 5;
      const refusedMs = performance.now();
      await pause(obeysMs);
      await ask();
      // Later than this the next token has come, whatever was asked.
      if (performance.now() - refusedMs < obeysMs + PATIENT_LATE_MS) return;
    }
  },
};

/** All three kinds of stream, readers that leave, and streams that the deployment is told to fail. */
export const streams: MiniStage = {
  options: { tenants: paid(4), limits: { service_ms: 250 }, tokens: 8 },
  play: async ({ view, sendAll, operate }) => {
    const fail_next = { route: "chat.control", mode: "error_event", after_events: 2, count: 3 };
    await operate("/deployment", { fail_next });
    await sendAll(callsOf(view, "chat.control", 3));
    const leaving = Array.from({ length: 4 }, (_, n) => ({
      ...callOf(view, "org_t1", "chat.control", n),
      abort: { afterEvents: 1 + (n % 2) },
    }));
    await sendAll([
      ...callsOf(view, "chat.control", 8),
      ...callsOf(view, "chat.summary", 4),
      ...callsOf(view, "chat.button", 4),
      ...leaving,
    ]);
  },
};

/** Enough for a cut of one in fifty to be certain. */
const HUNDREDS = 600;

/** Six hundred short streams, of all three kinds. */
export const manyStreams: MiniStage = {
  options: { tenants: paid(4), limits: { service_ms: 10 }, tokens: 2 },
  play: async ({ view, sendAll }) => {
    for (const route of ["chat.control", "chat.summary", "chat.button"] as const) {
      await sendAll(callsOf(view, route, HUNDREDS / 3), 40);
    }
  },
};

/** The service is asked to stop while streams run. */
export const deploy: MiniStage = {
  options: { tenants: paid(4), limits: { service_ms: 400 }, tokens: 8 },
  play: async ({ view, sendAll, untilInFlight, running, silence }) => {
    const open = sendAll(callsOf(view, "chat.control", 8));
    await untilInFlight(8);
    silence();
    await Promise.all([running.close(), open]);
  },
};

/** The time after which a judge counts a change as arrived: the revocation budget and a margin. */
const ARRIVED_MS = REVOCATION_BUDGET_MS + 150;

const session = (of: CallerName) => ({ as: "session", of, product: "chat" }) as const;

/** Calls of one organization by a session and its two keys. */
const callsBy = (view: TargetView, org: string): Step[] => {
  const of: CallerName = `tenant:${org}`;
  return [
    stepOf(view, 0, { route: "poi.enrich", credential: session(of), origin: "listed" }),
    stepOf(view, 1, { route: "chat.control", credential: session(of), origin: "listed" }),
    stepOf(view, 2, { route: "poi.enrich", credential: { as: "server", of } }),
    stepOf(view, 3, {
      route: "sdk.sessions",
      credential: { as: "publishable", of },
      origin: "listed",
      product: "chat",
    }),
  ];
};

/** Keys are revoked and an organization is downgraded while their sessions live. */
export const recordChanges: MiniStage = {
  options: { tenants: paid(3) },
  play: async ({ view, sendAll, operate, mark }) => {
    const [revoked, downgraded, untouched] = ["org_t1", "org_t2", "org_t3"];
    for (const org of [revoked, downgraded, untouched]) await sendAll(callsBy(view, org), 2);
    for (const kind of ["publishable", "server"]) {
      await operate(`/keys/key_${revoked}_${kind}`, { status: "revoked" });
    }
    await operate(`/orgs/${downgraded}`, { tier: "Free" });
    mark("revoked", { org: revoked });
    mark("tier-changed", { org: downgraded });
    await pause(ARRIVED_MS);
    const free: TargetView = {
      ...view,
      tenants: view.tenants.map((tenant) => (tenant.org === downgraded ? { ...tenant, tier: "Free" } : tenant)),
    };
    const over = callsBy(view, revoked).map(
      (step): Step => ({ ...step, org: "-", facts: { ...step.facts, state: "revoked" } }),
    );
    for (let round = 0; round < 2; round += 1) {
      await sendAll([...over, ...callsBy(free, downgraded), ...callsBy(view, untouched)], 4);
    }
  },
};

// Stages about single answers and allowances: what is admitted, answered and charged.

const SEED = 1;
/** The origin in the allowlist of every seeded publishable key (`platform/seed.ts`). */
const SEED_ORIGIN = "https://app.example";

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
    await pause(ARRIVED_MS);
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

// Stages for the rules of `verify`, which see headers, bodies and key management.

/** Higher than the deployment can answer, so that `verify` does not wait between calls. */
const RATE_PER_S = 5_000;
const ERROR_EVENTS = ["verify/stream-error-event", "verify/stream-nothing-after-error"];
/** Opens the streams that the rules about error events judge. */
const A_STREAM_RULE = "verify/stream-content-type";

/** `part` separates the call ids of two runs on one deployment in the ledger. */
const judge = async ({ target, clock, stage }: Bench, part: string, more: Partial<VerifyOptions>): Promise<Claim[]> => {
  const { claims } = await runVerify({
    target,
    secrets: createSecrets("."),
    seed: SEED,
    clock,
    ratePerS: RATE_PER_S,
    idPrefix: `mutants.${stage}.${part}`,
    // Always the middle of a month, so that no trial meets the end of one.
    wallMs: () => Date.UTC(2026, 5, 15),
    ...more,
  });
  return claims;
};

/** Every rule of `verify` that needs no load. */
export const verify: MiniStage = {
  rulesAlone: true,
  options: { tenants: [], limits: { service_ms: 180 }, tokens: 6 },
  play: async (bench) => {
    const allowed = { allowWrites: true, allowQuotaBurn: true };
    bench.claims.push(...(await judge(bench, "c", { ...allowed, skip: ERROR_EVENTS })));
    // No call can provoke an error event, so the control plane orders one.
    const fail_next = { route: "chat.button", mode: "error_event", after_events: 2, count: 1 };
    await bench.operate("/deployment", { fail_next });
    const failing = await judge(bench, "e", { ...allowed, only: [A_STREAM_RULE, ...ERROR_EVENTS] });
    bench.claims.push(...failing.filter(({ id }) => ERROR_EVENTS.includes(id)));
  },
};

/** Above the rate of a key and above the caps. */
const LOAD_MAX_RPS = 150;

/** The rules of `verify` about the request rate and the caps, which need load. */
export const verifyLoad: MiniStage = {
  rulesAlone: true,
  options: {
    tenants: paid(2),
    limits: { global_in_flight: 24, org_in_flight: 12, service_ms: 300, rate_per_s: 40, burst: 60 },
  },
  play: async (bench) => {
    const target = { ...bench.target, permits: { ...bench.target.permits, load_max_rps: LOAD_MAX_RPS } };
    bench.claims.push(...(await judge({ ...bench, target }, "c", { allowLoad: true, only: ["load"] })));
  },
};
