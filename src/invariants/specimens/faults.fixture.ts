/** Specimens of the judges of faults: failing closed, recovering, revocation. */
import type { CallLine, Line } from "../../history/line.ts";
import { LATE } from "../../history/machines.fixture.ts";
import type { StageHost } from "../../history/run-document.ts";
import {
  call,
  fault,
  faultSpan,
  foreignStage,
  inOrder,
  load,
  lost,
  many,
  mark,
  SERVER,
  SESSION,
  type Specimens,
  sharedStage,
} from "./specimen.fixture.ts";

const FAULTS = { faults: true };
const during = (count: number, outcome: string, more: Parameters<typeof call>[1] = {}, fromMs = 1_100): CallLine[] =>
  many(count, (at) => call(`${outcome} ${at}`, { atMs: fromMs + at, outcome, facts: SERVER, ...more }));
const limiterDown = faultSpan("limiter", "refused", 1_000, 4_000);
const keysDown = faultSpan("keys", "refused", 1_000, 4_000);

export const failsClosed: Specimens = {
  good: [
    {
      name: "limiter down",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable"),
        ...during(3, "403 insufficient_scope"),
        ...during(3, "429 b2b_overloaded"),
      ),
    },
    {
      name: "keys down: cached, then 503",
      facts: FAULTS,
      lines: inOrder(...keysDown, ...during(5, "200"), ...during(12, "503", {}, 2_200)),
    },
    {
      name: "admitted around the edges of the fault",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable"),
        call("b", { atMs: 995, tookMs: 50 }),
        call("e", { atMs: 3_990, tookMs: 50 }),
      ),
    },
    {
      name: "answers that were held back, let go by another fault on the same link",
      facts: FAULTS,
      lines: inOrder(
        ...faultSpan("limiter", "slow-beyond-budget", 1_000, 4_000),
        ...faultSpan("limiter", "reset", 2_500, 3_500),
        ...during(12, "429 limiter_unavailable"),
        ...during(4, "200", { tookMs: 160 }, 2_400),
        ...during(4, "200", { tookMs: 160 }, 3_400),
      ),
    },
    {
      name: "slow within the budget admits calls",
      facts: FAULTS,
      lines: inOrder(...faultSpan("limiter", "slow-within-budget", 1_000, 4_000), ...during(12, "200")),
    },
    {
      name: "calls that nobody knows of",
      facts: FAULTS,
      lines: inOrder(...limiterDown, ...during(12, "429 limiter_unavailable"), lost("x", { atMs: 1_500 })),
    },
    {
      name: "a few server errors beside the refusals, and a gateway's",
      facts: foreignStage(FAULTS),
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable"),
        ...during(3, "500 internal"),
        ...during(12, "edge 502"),
      ),
    },
    {
      name: "unlimited routes elsewhere",
      facts: foreignStage(FAULTS),
      lines: inOrder(...limiterDown, ...during(12, "429 limiter_unavailable"), ...during(3, "200")),
    },
    {
      name: "somebody else's, busy with others",
      facts: sharedStage(FAULTS),
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable"),
        ...during(9, "429 b2b_overloaded"),
        ...during(3, "503"),
        ...during(3, "edge 502"),
      ),
    },
  ],
  bad: [
    {
      name: "fails open beside others",
      facts: sharedStage(FAULTS),
      lines: inOrder(...limiterDown, ...many(12, (at) => load(`${at}`, { atMs: 1_100 + at }))),
      says: /maps\.loads/,
    },
    {
      name: "fails open",
      facts: FAULTS,
      lines: inOrder(...limiterDown, ...during(12, "200")),
      says: /200 on design\.styles while the limiter was "refused"/,
    },
    {
      name: "knows a quota without its limiter",
      facts: FAULTS,
      lines: inOrder(...limiterDown, ...during(12, "429 rate_limited")),
      says: /rate_limited/,
    },
    {
      name: "a server error for each call elsewhere",
      facts: foreignStage(FAULTS),
      lines: inOrder(...limiterDown, ...during(12, "500 internal")),
      says: /500 internal on design\.styles while the limiter was "refused"/,
    },
    {
      name: "gives loads away elsewhere",
      facts: foreignStage(FAULTS),
      lines: inOrder(...limiterDown, load("1", { atMs: 2_000 })),
      says: /maps\.loads/,
    },
    {
      name: "admitted while two faults lay on the link",
      facts: FAULTS,
      lines: inOrder(
        ...faultSpan("limiter", "slow-beyond-budget", 1_000, 4_000),
        ...faultSpan("limiter", "reset", 2_500, 3_500),
        call("1", { atMs: 3_000 }),
      ),
      says: /200 on/,
    },
    {
      name: "admitted when the second of two faults was gone",
      facts: FAULTS,
      lines: inOrder(
        ...faultSpan("limiter", "slow-beyond-budget", 1_000, 4_000),
        ...faultSpan("limiter", "reset", 2_500, 3_500),
        call("1", { atMs: 3_600 }),
      ),
      says: /slow-beyond-budget/,
    },
    {
      name: "a stream admitted",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        call("1", { route: "chat.control", atMs: 2_000, firstMs: 10, tookMs: 60_000, ended: "done" }),
      ),
      says: /chat\.control/,
    },
    {
      name: "401 when keys are down",
      facts: FAULTS,
      lines: inOrder(...keysDown, ...during(12, "401")),
      says: /401 for a valid server credential/,
    },
    {
      name: "an old key record",
      facts: FAULTS,
      lines: inOrder(...keysDown, ...during(12, "200", {}, 2_100)),
      says: /older than 1000 ms/,
    },
  ],
  thin: [
    {
      name: "a fault that may stand before one of two replicas only",
      facts: foreignStage({ ...FAULTS, limits: { replicas: 2 } }),
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable"),
        ...many(9, (at) => load(`${at}`, { atMs: 1_200 + at })),
      ),
      verdict: "inconclusive",
      says: /some replicas only/,
    },
    {
      name: "tile sessions minted elsewhere, whose allowance may be kept with the keys",
      facts: foreignStage(FAULTS),
      lines: inOrder(...limiterDown, ...during(12, "200", { route: "sdk.sessions", product: "tile" })),
      verdict: "inconclusive",
      says: /none was refused for it/,
    },
    {
      name: "every call admitted elsewhere, where nobody knows which calls need the limiter",
      facts: foreignStage(FAULTS),
      lines: inOrder(...limiterDown, ...during(12, "200")),
      verdict: "inconclusive",
      says: /12 calls were admitted while the limiter could not answer, and none was refused for it/,
    },
    { name: "no faults", lines: [call("1")], verdict: "skipped", says: /fault/ },
    { name: "no fault put in", facts: FAULTS, lines: [call("1")], verdict: "inconclusive", says: /injected/ },
    {
      name: "took no effect",
      facts: FAULTS,
      lines: inOrder(...faultSpan("limiter", "refused", 1_000, 4_000, false), ...during(12, "200")),
      verdict: "inconclusive",
      says: /no effect/,
    },
    {
      name: "few calls",
      facts: FAULTS,
      lines: inOrder(...limiterDown, ...during(3, "429 limiter_unavailable")),
      verdict: "inconclusive",
      says: /10 are needed/,
    },
    {
      name: "few calls under faults that were drawn",
      facts: { ...FAULTS, incidental: true },
      lines: inOrder(...limiterDown, ...during(3, "429 limiter_unavailable")),
      verdict: "skipped",
      says: /10 are needed/,
    },
  ],
};

const healed = [
  fault("limiter", "refused", "injecting", 900),
  fault("limiter", "refused", "injected", 1_000),
  fault("limiter", "refused", "healing", 2_000),
  fault("limiter", "refused", "healed", 2_010),
];
const after = (count: number, outcome: string, fromMs = 7_100): CallLine[] =>
  during(count, outcome, { bucket: "k" }, fromMs);

/** So many refusals, evenly over the time in which a late one is certainly late. */
const evenly = (calls: number, more: Parameters<typeof call>[1]): CallLine[] =>
  many(calls, (at) =>
    call(`e${at}`, { atMs: 1_100 + (1_500 * at) / calls, outcome: "429 limiter_unavailable", ...more }),
  );

const machine = (stealShare: number, more: Partial<StageHost> = {}, busyShare = 0.5): StageHost => ({
  host: {
    event_loop_lag_ms_p99: 1,
    event_loop_lag_ms_max: 1,
    cpu_share: 0.1,
    cpu_share_max: 1,
    steal_share: stealShare,
    busy_share: busyShare,
    throttled_share: null,
    listen_overflows: 0,
    listen_drops: 0,
    syn_retransmits: 0,
    ports_share: 0,
    descriptors_share: 0,
  },
  cores: 2,
  target_cores: 0.1,
  other_cores: 0,
  calls: 100,
  lag_ms: [[0.99, 1]],
  rate_error: 0,
  generator: [],
  calibration: [],
  ...more,
});
/** Other programs have nearly all of its cores, and no call leaves late. */
const FILLED = machine(0, { other_cores: 1.9 }, 0.99);

export const refusesInTime: Specimens = {
  good: [
    {
      name: "refused at the end of the budget",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable", { done_us: 1_400_000, first_us: 1_400_000 }),
      ),
    },
    {
      name: "slow calls from before the injection, and quick ones from its midst",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...many(12, (at) => call(`old ${at}`, { atMs: 900 + at, tookMs: 3_000 })),
        ...many(12, (at) => call(`${at}`, { atMs: 991 + at / 2, tookMs: 250, outcome: "429 limiter_unavailable" })),
      ),
    },
    {
      name: "the heal ends the waiting of the last ones",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable"),
        ...many(5, (at) => call(`waits ${at}`, { atMs: 3_900, tookMs: 2_000 })),
      ),
    },
    {
      name: "a stray on a busy machine",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...during(30, "429 limiter_unavailable"),
        call("x", { atMs: 1_200, tookMs: 1_900 }),
      ),
    },
    {
      name: "the whole machine stood still, the generator as well",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...during(12, "429 limiter_unavailable"),
        ...many(12, (at) => call(`${at}`, { atMs: 1_200 + at, tookMs: 2_700, outcome: "429 limiter_unavailable" })),
        ...many(3, (at) => call(`after ${at}`, { atMs: 3_800 + at, intended_us: 1_300_000 })),
      ),
    },
    {
      name: "strays among thousands, and thousands that the generator itself held up",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...evenly(6_000, {}),
        ...many(1_100, (at) => call(`s${at}`, { atMs: 1_200 + at / 10, tookMs: 1_400 })),
        ...many(9_000, (at) =>
          call(`h${at}`, { atMs: 1_320 + at / 1_000, tookMs: 2_600, outcome: "429 limiter_unavailable" }),
        ),
        ...many(3, (at) => call(`after ${at}`, { atMs: 3_900 + at, intended_us: 1_330_000 })),
      ),
    },
    {
      name: "answers that take seconds of work, where the fault lets calls through",
      facts: FAULTS,
      lines: inOrder(
        ...faultSpan("limiter", "flapping", 1_000, 9_000),
        ...during(12, "429 limiter_unavailable"),
        ...many(12, (at) => call(`${at}`, { atMs: 1_200 + at, tookMs: 3_000, route: "poi.enrich" })),
      ),
    },
    {
      name: "answers that take seconds of work, on a route that a foreign deployment does not limit",
      facts: foreignStage({ faults: true }),
      lines: inOrder(
        ...faultSpan("limiter", "refused", 1_000, 9_000),
        ...during(12, "429 limiter_unavailable"),
        ...many(12, (at) => call(`${at}`, { atMs: 1_200 + at, tookMs: 3_000, route: "poi.enrich" })),
      ),
    },
    {
      name: "both at once: each has its time",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...keysDown,
        ...many(12, (at) => call(`${at}`, { atMs: 1_100 + at, tookMs: 1_400, outcome: "503" })),
      ),
    },
  ],
  bad: [
    {
      name: "waits until the heal",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...many(12, (at) => call(`${at}`, { atMs: 1_100 + at, tookMs: 2_950, outcome: "429 limiter_unavailable" })),
      ),
      says: /after 2950 ms on design\.styles while "refused"; 1250 ms are plenty/,
    },
    {
      name: "waits until the heal, and serves then",
      facts: foreignStage({ faults: true }),
      lines: inOrder(...limiterDown, ...many(12, (at) => load(`${at}`, { atMs: 1_100 + at, tookMs: 3_200 }))),
      says: /200 after 3200 ms on maps\.loads/,
    },
    {
      name: "waits for longer than the generator stood still",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...many(12, (at) => call(`${at}`, { atMs: 1_100 + at, tookMs: 2_850, outcome: "429 limiter_unavailable" })),
        ...many(3, (at) => call(`after ${at}`, { atMs: 1_800 + at, intended_us: 1_300_000 })),
      ),
      says: /after 2850 ms/,
    },
    {
      name: "hangs from the injection on, and sheds all that comes later",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...many(12, (at) => call(`${at}`, { atMs: 990 + at / 2, tookMs: 3_010 })),
        ...during(40, "429 b2b_overloaded"),
      ),
      says: /200 after 30\d\d ms on design\.styles while "refused"/,
    },
    {
      name: "gives no answer at all",
      facts: FAULTS,
      lines: inOrder(...limiterDown, ...many(12, (at) => lost(`${at}`, { atMs: 1_100 + at, tookMs: 15_000 }))),
      says: /indeterminate after 15000 ms/,
    },
    ...[1_001, 5_001, 20_000].map((calls) => ({
      name: `is late for each of ${calls} calls`,
      facts: FAULTS,
      lines: inOrder(...limiterDown, ...evenly(calls, { tookMs: 2_950 })),
      says: new RegExp(`\\(${calls} times\\)`),
    })),
    {
      name: "is late for three of ten among thousands",
      facts: FAULTS,
      lines: inOrder(
        ...limiterDown,
        ...evenly(20_000, {}).map((line, at) =>
          at % 10 < 3
            ? { ...line, done_us: line.done_us + 2_000_000, first_us: (line.first_us ?? 0) + 2_000_000 }
            : line,
        ),
      ),
      says: /after 2001 ms/,
    },
  ],
  thin: [
    {
      name: "waits until the heal, on a machine that others fill",
      facts: { ...FAULTS, host: FILLED },
      lines: inOrder(
        ...limiterDown,
        ...many(12, (at) => call(`${at}`, { atMs: 1_100 + at, tookMs: 2_950, outcome: "429 limiter_unavailable" })),
      ),
      verdict: "inconclusive",
      says: /after 2950 ms .* other programs used 1.9 of 2 cores/,
    },
    { name: "no fault", lines: [call("1")], verdict: "skipped", says: /a fault/ },
    {
      name: "few calls",
      facts: FAULTS,
      lines: inOrder(...limiterDown, ...during(3, "429 limiter_unavailable")),
      verdict: "inconclusive",
      says: /3 calls/,
    },
    {
      name: "no budget stated",
      facts: { ...FAULTS, limits: {} },
      lines: inOrder(...limiterDown, ...during(12, "429 limiter_unavailable")),
      verdict: "skipped",
      says: /limiter_budget_ms/,
    },
    {
      name: "took no effect",
      facts: FAULTS,
      lines: inOrder(...faultSpan("limiter", "refused", 1_000, 4_000, false), ...during(12, "200")),
      verdict: "inconclusive",
      says: /no fault/,
    },
  ],
};

export const recovers: Specimens = {
  good: [
    {
      name: "well by the deadline",
      facts: FAULTS,
      lines: inOrder(...healed, ...after(20, "429 limiter_unavailable", 3_000), ...after(20, "200")),
    },
    {
      name: "broken again by the next fault",
      facts: FAULTS,
      lines: inOrder(
        ...healed,
        ...after(5, "200"),
        fault("limiter", "reset", "injecting", 8_000),
        ...after(20, "429 limiter_unavailable", 8_100),
      ),
    },
    {
      name: "a stray on a busy machine",
      facts: FAULTS,
      lines: inOrder(...healed, ...after(80, "200"), ...after(1, "429 limiter_unavailable")),
    },
    {
      name: "as many look-ups as needed",
      facts: { ...FAULTS, key_lookups: [{ from_us: 2_010_000, to_us: 7_010_000, count: 7 }] },
      lines: inOrder(...healed, ...after(20, "200")),
    },
    {
      name: "three per cent of its own elsewhere, before the fault and after it",
      facts: sharedStage(FAULTS),
      lines: inOrder(
        ...during(194, "200", {}, 0),
        ...during(6, "503", {}, 300),
        ...healed,
        ...after(194, "200"),
        ...after(6, "503"),
        ...after(20, "429 b2b_overloaded"),
      ),
    },
    {
      name: "look-ups of others",
      facts: sharedStage({ ...FAULTS, key_lookups: [{ from_us: 2_010_000, to_us: 7_010_000, count: 300 }] }),
      lines: inOrder(...healed, ...after(20, "200")),
    },
  ],
  bad: [
    {
      name: "half broken elsewhere",
      facts: sharedStage(FAULTS),
      lines: inOrder(...during(30, "200", {}, 0), ...healed, ...after(20, "200"), ...after(10, "503")),
      says: /503/,
    },
    {
      name: "stays broken",
      facts: FAULTS,
      lines: inOrder(...healed, ...after(20, "429 limiter_unavailable")),
      says: /limiter_unavailable on design\.styles after/,
    },
    {
      name: "broken for a while on a calm machine",
      facts: { ...FAULTS, host: machine(0.01) },
      lines: inOrder(...healed, ...after(10, "503"), ...after(20, "200", 9_000)),
      says: /503/,
    },
    {
      name: "never well for long, on a machine that stands still as well",
      facts: { ...FAULTS, host: machine(0.4) },
      lines: inOrder(...healed, ...after(8, "200"), ...after(10, "503", 9_000)),
      says: /503/,
    },
    {
      name: "half broken",
      facts: FAULTS,
      lines: inOrder(...healed, ...after(20, "200"), ...after(10, "503")),
      says: /503/,
    },
    {
      name: "hangs",
      facts: FAULTS,
      lines: inOrder(...healed, ...many(6, (at) => lost(`l${at}`, { atMs: 7_100 + at }))),
      says: /6 calls after the recovery deadline, and not one/,
    },
    {
      name: "stampedes the key service",
      facts: { ...FAULTS, key_lookups: [{ from_us: 2_010_000, to_us: 7_010_000, count: 300 }] },
      lines: inOrder(...healed, ...after(20, "200")),
      says: /300 look-ups of 1 keys; 7 at most/,
    },
  ],
  thin: [
    {
      name: "broken for a while on a machine that stands still",
      facts: { ...FAULTS, host: machine(0.4) },
      lines: inOrder(...healed, ...after(10, "503"), ...after(20, "200", 9_000)),
      verdict: "inconclusive",
      says: /took 40 % of the CPU; 10 calls were refused .* 20 in a row got through/,
    },
    {
      name: "a gateway in its place",
      facts: sharedStage(FAULTS),
      lines: inOrder(...healed, ...after(20, "edge 503")),
      verdict: "inconclusive",
      says: /gateway/,
    },
    { name: "no faults", lines: [], verdict: "skipped", says: /healed/ },
    {
      name: "never healed",
      facts: FAULTS,
      lines: healed.slice(0, 3),
      verdict: "inconclusive",
      says: /no fault was healed/,
    },
    {
      name: "nobody called afterwards",
      facts: FAULTS,
      lines: inOrder(...healed, ...after(5, "200", 3_000)),
      verdict: "inconclusive",
      says: /no call came/,
    },
  ],
};

const revoked = (id: string, atMs: number, outcome: string, more: Partial<CallLine> = {}): CallLine =>
  call(id, { atMs, outcome, facts: { ...SERVER, state: "revoked" }, ...more });

export const revokedStaysOut: Specimens = {
  good: [
    {
      name: "served for the budget, then out",
      lines: inOrder(
        call("0"),
        mark("revoked", 5_000, { org: "a", detail: "k" }),
        revoked("1", 5_500, "200"),
        revoked("2", 7_000, "401"),
      ),
    },
    {
      name: "served for the budget, to a caller of no organization",
      lines: inOrder(
        call("0"),
        mark("revoked", 5_000, { org: "a" }),
        revoked("1", 5_500, "200", { org: "-" }),
        revoked("2", 7_000, "401", { org: "-" }),
      ),
    },
    {
      name: "a stream that was open before",
      lines: inOrder(
        call("0"),
        call("s", { route: "chat.control", atMs: 4_000, firstMs: 5, tookMs: 9_000, facts: SERVER, ended: "done" }),
        mark("revoked", 5_000, { org: "a" }),
        revoked("2", 7_000, "401"),
      ),
    },
    {
      name: "calls that nobody knows of",
      lines: inOrder(
        call("0"),
        mark("revoked", 5_000, { org: "a" }),
        lost("1", { atMs: 9_000, facts: { ...SERVER, state: "revoked" } }),
        revoked("2", 7_000, "401"),
      ),
    },
    {
      name: "a session lives on elsewhere",
      facts: foreignStage(),
      lines: [
        call("0"),
        revoked("1", 9_000, "200", { facts: { ...SESSION, state: "revoked" } }),
        revoked("2", 9_001, "401"),
      ],
    },
  ],
  bad: [
    {
      name: "a stale key",
      lines: inOrder(call("0"), mark("revoked", 5_000, { org: "a", detail: "k" }), revoked("1", 6_500, "200")),
      says: /200 on design\.styles for a revoked server/,
    },
    { name: "revoked long before", lines: [call("0"), revoked("1", 9_000, "200")], says: /revoked/ },
    {
      name: "expired",
      lines: [call("0", { outcome: "200", facts: { ...SERVER, state: "expired" } })],
      says: /expired/,
    },
  ],
  thin: [
    { name: "nobody revoked", lines: [call("1", { facts: SERVER })], verdict: "inconclusive", says: /no call came/ },
    {
      name: "only within the budget",
      lines: inOrder(call("0"), mark("revoked", 5_000, { org: "a" }), revoked("1", 5_500, "401")),
      verdict: "inconclusive",
      says: /no call came/,
    },
  ],
};

const held = (link_sockets: number, timers = 5) => ({ in_flight: 0, in_flight_by_org: {}, link_sockets, timers });

const CAPPED = { ...FAULTS, limits: { global_in_flight: 32 } };

export const nothingIsLeftOpen: Specimens = {
  good: [
    {
      name: "as many as before, and some that a pool keeps",
      facts: { ...FAULTS, gauges_before: [held(2)], gauges: [held(12)] },
      lines: limiterDown,
    },
    {
      name: "a replica that was started anew holds less",
      facts: { ...FAULTS, gauges_before: [held(40)], gauges: [held(0)] },
      lines: limiterDown,
    },
    {
      name: "a deployment that is not ours, with one in each pool for each call that may be in flight",
      facts: foreignStage({ ...CAPPED, gauges_before: [held(2)], gauges: [held(66)] }),
      lines: limiterDown,
    },
  ],
  bad: [
    {
      name: "a connection for each call that failed",
      facts: { ...FAULTS, gauges_before: [held(2), held(2)], gauges: [held(2), held(60)] },
      lines: limiterDown,
      says: /60 connections to its dependencies, and 2 before/,
    },
    {
      name: "a timer for each call that failed",
      facts: { ...FAULTS, gauges_before: [held(2)], gauges: [held(2, 90)] },
      lines: limiterDown,
      says: /90 timers, and 5 before/,
    },
    {
      name: "a deployment that is not ours, with more than a pool can need",
      facts: foreignStage({ ...CAPPED, gauges_before: [held(2)], gauges: [held(90)] }),
      lines: limiterDown,
      says: /90 connections to its dependencies, and 2 before/,
    },
  ],
  thin: [
    { name: "no fault", lines: [], verdict: "skipped", says: /a fault/ },
    { name: "no gauges", facts: FAULTS, lines: limiterDown, verdict: "skipped", says: /gauges/ },
    {
      name: "gauges that show no such thing",
      facts: {
        ...FAULTS,
        gauges_before: [{ in_flight: 0, in_flight_by_org: {} }],
        gauges: [{ in_flight: 0, in_flight_by_org: {} }],
      },
      lines: limiterDown,
      verdict: "skipped",
      says: /sockets/,
    },
    {
      name: "connections of a pool of which nobody knows how large it may be",
      facts: foreignStage({
        ...FAULTS,
        limits: {},
        gauges_before: [{ in_flight: 0, in_flight_by_org: {}, link_sockets: 2 }],
        gauges: [{ in_flight: 0, in_flight_by_org: {}, link_sockets: 60 }],
      }),
      lines: limiterDown,
      verdict: "skipped",
      says: /global_in_flight/,
    },
    {
      name: "others call as well",
      facts: sharedStage({ ...FAULTS, gauges_before: [held(2)], gauges: [held(60)] }),
      lines: limiterDown,
      verdict: "skipped",
      says: /exclusive/,
    },
    {
      name: "not drained",
      facts: { ...FAULTS, drained: false, gauges_before: [held(2)], gauges: [held(60)] },
      lines: limiterDown,
      verdict: "inconclusive",
      says: /drained/,
    },
  ],
};

const edge = (id: string, status: number, shape: Parameters<typeof call>[1] = {}): Line =>
  call(id, { outcome: `edge ${status}`, ...shape });

const CODED = { error: "coded-gzip" };

export const answered: Specimens = {
  good: [
    {
      name: "refused and admitted, all of it by the API",
      facts: foreignStage(),
      lines: [call("1"), call("2", { outcome: "429 b2b_overloaded" }), call("3", { outcome: "503" })],
    },
    {
      name: "one gateway's answer in a hundred",
      facts: foreignStage(),
      lines: [...many(199, (at) => call(`${at}`)), edge("502", 502), lost("reset", { error: "connection_reset" })],
    },
    {
      name: "a server error in a hundred",
      facts: foreignStage(),
      lines: [...many(199, (at) => call(`${at}`)), call("500", { outcome: "500 internal" })],
    },
    {
      name: "one stray in a short stage",
      facts: foreignStage(),
      lines: [...many(39, (at) => call(`${at}`)), edge("502", 502)],
    },
    {
      name: "more than that, and the target file tolerates it",
      facts: foreignStage({ limits: { unanswered_share: 0.2 } }),
      lines: [...many(90, (at) => call(`${at}`)), ...many(10, (at) => edge(`e${at}`, 502))],
    },
    {
      name: "a replica was killed, and what it had begun was lost",
      facts: foreignStage({ faults: true, recovery_deadline_ms: 1_000 }),
      lines: inOrder(
        ...many(20, (at) => call(`${at}`, { atMs: at * 10 })),
        ...faultSpan("api", "killed", 300, 800),
        // Begun before, lost in it; sent in it; sent while it recovered.
        lost("begun", { atMs: 250, error: "connection_reset" }),
        ...many(30, (at) => edge(`in${at}`, 502, { atMs: 320 + at * 10 })),
        ...many(5, (at) => edge(`after${at}`, 503, { atMs: 900 + at * 10 })),
        ...many(20, (at) => call(`well${at}`, { atMs: 3_000 + at * 10 })),
      ),
    },
    {
      name: "an operator's changes, one after the other",
      facts: foreignStage(),
      lines: inOrder(
        ...many(20, (at) => call(`${at}`, { atMs: at * 10 })),
        mark("operator-changed", 300),
        mark("operator-changed", 20_000),
        mark("operator-restored", 20_100),
        ...many(5, (at) => edge(`first${at}`, 502, { atMs: 400 + at })),
        ...many(5, (at) => edge(`held${at}`, 502, { atMs: 15_000 + at })),
      ),
    },
    {
      name: "readers that left, and ports that ran out here",
      facts: foreignStage(),
      lines: [
        ...many(500, (at) => call(`${at}`)),
        ...many(40, (at) => lost(`left${at}`, { aborted: true })),
        ...many(4, (at) => lost(`port${at}`, { error: "no_local_port" })),
      ],
    },
  ],
  bad: [
    {
      name: "connections that break under calls that left in time",
      facts: foreignStage(),
      lines: many(50, (at) =>
        at % 2 === 0 ? call(`${at}`) : lost(`${at}`, { connect_us: 0, error: "connection_closed" }),
      ),
      says: /25 x no answer \(connection_closed\); all on connections that had been used before/,
    },
    {
      name: "new connections that break, seconds late",
      facts: foreignStage(),
      lines: many(50, (at) =>
        at % 2 === 0
          ? call(`${at}`)
          : lost(`${at}`, { connect_us: 900, error: "connection_reset", intended_us: -8_000_000 }),
      ),
      says: /25 x no answer \(connection_reset\); all within/,
    },
    {
      name: "one of two upstreams is dead",
      facts: foreignStage(),
      lines: many(50, (at) => (at % 5 === 0 ? call(`${at}`) : edge(`${at}`, 502))),
      says: /40 x edge 502; a gateway says so of the API behind it/,
    },
    {
      name: "server errors in place of sheds",
      facts: foreignStage(),
      lines: many(50, (at) => (at % 3 === 0 ? call(`${at}`) : call(`${at}`, { outcome: "500 internal" }))),
      says: /33 x 500 internal/,
    },
    {
      name: "a gateway answers in the API's place and compresses its page",
      facts: foreignStage(),
      lines: many(50, (at) => (at % 3 === 0 ? call(`${at}`) : edge(`${at}`, 502, CODED))),
      says: /33 x edge 502 \(coded-gzip\)/,
    },
    {
      name: "a gateway answers in the API's place and compresses what else it passes on",
      facts: foreignStage(),
      lines: many(60, (at) =>
        at % 3 === 0 ? call(`${at}`) : at % 3 === 1 ? edge(`${at}`, 502) : edge(`${at}`, 200, CODED),
      ),
      says: /20 x edge 200 \(coded-gzip\), 20 x edge 502/,
    },
    {
      name: "connections are closed without an answer, all over the stage",
      facts: foreignStage(),
      lines: many(50, (at) =>
        at % 3 === 2
          ? lost(`${at}`, { atMs: at * 10, connect_us: 900, error: "connection_reset" })
          : call(`${at}`, { atMs: at * 10 }),
      ),
      says: /: 16 x no answer \(connection_reset\)\n/,
    },
    {
      name: "connections are closed at once, on a machine that stood still as well",
      facts: foreignStage({ host: LATE }),
      lines: many(50, (at) =>
        at % 2 === 0 ? call(`${at}`) : lost(`${at}`, { error: "connection_closed", tookMs: 5 }),
      ),
      says: /25 x no answer \(connection_closed\)/,
    },
    {
      name: "it takes no connection for a second and a half",
      facts: foreignStage(),
      lines: many(100, (at) =>
        at >= 40 && at <= 55
          ? lost(`${at}`, { atMs: at * 100, error: "connection_refused" })
          : call(`${at}`, { atMs: at * 100 }),
      ),
      says: /16 x no answer \(connection_refused\); all within 1.5 s, and it answered before and after: was it restarted/,
    },
    {
      name: "nobody ever answers",
      facts: foreignStage(),
      lines: many(9, (at) => edge(`${at}`, 403)),
      says: /9 x edge 403; is base_url right, and does the gateway in front let these calls through/,
    },
    {
      name: "it stays away long after our fault was healed",
      facts: foreignStage({ faults: true, recovery_deadline_ms: 1_000 }),
      lines: inOrder(
        ...many(20, (at) => call(`${at}`, { atMs: at * 10 })),
        ...faultSpan("api", "killed", 300, 800),
        ...many(30, (at) => edge(`after${at}`, 502, { atMs: 5_000 + at * 10 })),
      ),
      says: /30 x edge 502/,
    },
  ],
  thin: [
    { name: "no call", lines: [], verdict: "inconclusive", says: /no call is left/ },
    {
      name: "a gateway limits the rate in its own words",
      facts: foreignStage(),
      lines: many(50, (at) => (at % 3 === 0 ? call(`${at}`) : edge(`${at}`, 429))),
      verdict: "inconclusive",
      says: /33 x edge 429; .*does something in front of it limit or block calls/,
    },
    {
      name: "a proxy compresses everything, asked or not",
      facts: foreignStage(),
      lines: many(50, (at) => edge(`${at}`, 200, CODED)),
      verdict: "inconclusive",
      says: /50 x edge 200 \(coded-gzip\); these answers are compressed/,
    },
    {
      name: "a proxy compresses event streams",
      facts: foreignStage(),
      lines: many(50, (at) => (at % 3 === 0 ? edge(`${at}`, 200, CODED) : call(`${at}`))),
      verdict: "inconclusive",
      says: /17 x edge 200 \(coded-gzip\); these answers are compressed/,
    },
    {
      name: "two of forty",
      facts: foreignStage(),
      lines: [...many(38, (at) => call(`${at}`)), edge("1", 502), edge("2", 502)],
      verdict: "inconclusive",
      says: /2 x edge 502/,
    },
    {
      name: "one of three",
      facts: foreignStage(),
      lines: [call("1"), call("2"), edge("3", 502)],
      verdict: "inconclusive",
      says: /1 x edge 502/,
    },
    {
      name: "this machine had no port left for half of the calls",
      facts: foreignStage(),
      lines: many(50, (at) => (at % 2 === 0 ? call(`${at}`) : lost(`${at}`, { error: "no_local_port" }))),
      verdict: "inconclusive",
      says: /25 could not be sent by this machine/,
    },
    {
      name: "the name could not be resolved for a tenth of the calls",
      facts: foreignStage(),
      lines: many(50, (at) => (at % 10 > 0 ? call(`${at}`) : lost(`${at}`, { error: "dns_failed" }))),
      verdict: "inconclusive",
      says: /5 had no address: the name could not be resolved/,
    },
    {
      name: "calls timed out while this machine stood still",
      facts: foreignStage({ host: LATE }),
      lines: many(50, (at) => (at % 2 === 0 ? call(`${at}`) : lost(`${at}`, { error: "call_timeout" }))),
      verdict: "inconclusive",
      says: /25 timed out, here or at the server, while this machine stood still/,
    },
    {
      name: "the server gave up waiting for calls that this machine was sending when it stood still",
      facts: foreignStage({ host: LATE }),
      lines: many(50, (at) =>
        at % 2 === 0
          ? call(`${at}`)
          : at % 4 === 1
            ? edge(`${at}`, 408)
            : lost(`${at}`, { error: "connection_closed", tookMs: 58_000 }),
      ),
      verdict: "inconclusive",
      says: /25 timed out, here or at the server/,
    },
    {
      name: "calls timed out while other programs filled this machine",
      facts: foreignStage({ host: FILLED }),
      lines: many(50, (at) => (at % 2 === 0 ? call(`${at}`) : lost(`${at}`, { error: "first_event_timeout" }))),
      verdict: "inconclusive",
      says: /other programs used 1\.9 of 2 cores/,
    },
    {
      name: "this machine was suspended, and went on by connections that were closed as idle meanwhile",
      facts: foreignStage(),
      lines: many(50, (at) => {
        const atMs = 20_000 + at;
        const late = { atMs, intended_us: (atMs - 8_000) * 1000 };
        return at % 2 === 0 ? call(`${at}`, late) : lost(`${at}`, { ...late, error: "connection_closed" });
      }),
      verdict: "inconclusive",
      says: /25 left seconds late on connections that may have been closed as idle meanwhile/,
    },
  ],
};
