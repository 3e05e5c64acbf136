/** Specimens of the judges of allowances, charges, rates and books. */
import type { CallLine } from "../../history/line.ts";
import type { StageFacts } from "../../history/run-document.ts";
import {
  call,
  charge,
  foreignStage,
  inOrder,
  load,
  lost,
  many,
  mark,
  PUBLISHABLE,
  refund,
  type Specimens,
  sharedStage,
} from "./specimen.fixture.ts";

/** Organization `f`: Free, three loads a month. `a`: paid, two, so ten until the hard stop. */
const loads = (count: number, org: string, fromMs = 0): CallLine[] =>
  many(count, (at) => load(`${org}${fromMs + at}`, { org, atMs: fromMs + 2 * at }));
const refusedLoad = (id: string, org: string, atMs: number, used?: number): CallLine =>
  org === "f"
    ? load(id, {
        org,
        atMs,
        outcome: "429 map_load_quota_exceeded",
        quota: { meter: "map_loads", limit: 3, used: used ?? 3 },
      })
    : load(id, { org, atMs, outcome: "429 map_load_hard_stop" });
/** The allowance before and after the month's turn. */
const usedUpTwice = inOrder(
  ...loads(3, "f"),
  refusedLoad("r", "f", 100),
  mark("new-month", 5_000),
  ...loads(3, "f", 6_000),
  refusedLoad("s", "f", 9_000),
);
const tileMint = (id: string, more: Partial<CallLine> = {}): CallLine =>
  call(id, { route: "sdk.sessions", org: "f", facts: { ...PUBLISHABLE, product: "tile", tier: "Free" }, ...more });
/** Charges of callers that a run knows nothing of. */
const others = many(9, (at) => charge(`o${at}`, `theirs${at}`, { org: "f" }));
const unknownUse = { tenants: { f: { tier: "Free", allowance: 3 } as const } };

export const admitsAtMostTheAllowance: Specimens = {
  good: [
    { name: "to the allowance", lines: [...loads(3, "f"), refusedLoad("r", "f", 100)] },
    { name: "to the hard stop", lines: [...loads(10, "a"), refusedLoad("r", "a", 100)] },
    {
      name: "above the allowance before the run, as after a downgrade",
      facts: unknownUse,
      lines: [refusedLoad("r", "f", 0, 7)],
    },
    {
      name: "calls that nobody knows of excuse, and do not accuse",
      lines: [
        ...loads(3, "f"),
        ...many(5, (at) => lost(`x${at}`, { route: "maps.loads", org: "f" })),
        refusedLoad("r", "f", 100),
      ],
    },
    {
      name: "again after the month's turn",
      lines: usedUpTwice,
    },
    {
      name: "used up before the stage, and charged only after the month's turn",
      facts: {
        tenants: { f: { tier: "Free", allowance: 3, used_at_start: 3 } },
        ledger: many(3, (at) => charge(`c${at}`, `f${6_000 + 2 * at}`, { org: "f" })),
      },
      lines: inOrder(refusedLoad("r", "f", 0), mark("new-month", 5_000), ...loads(3, "f", 6_000)),
    },
    {
      name: "around the calendar's edge",
      facts: { started_at_ms: Date.UTC(2026, 10, 30, 23, 59, 50) },
      lines: [...loads(3, "f"), refusedLoad("r", "f", 100), ...loads(3, "f", 30_000)],
    },
    {
      name: "around the calendar's edge, over which the clock was set back",
      facts: { started_at_ms: Date.UTC(2026, 11, 1, 0, 0, 10), clock_set_ms: -60_000 },
      lines: [...loads(3, "f"), refusedLoad("r", "f", 100), ...loads(3, "f", 6_000), refusedLoad("s", "f", 9_000)],
    },
    {
      name: "one more at the hard stop elsewhere",
      facts: foreignStage(),
      lines: [...loads(11, "a"), refusedLoad("r", "a", 100)],
    },
    {
      name: "all of the allowance, whatever was used before",
      facts: sharedStage({ tenants: { f: { tier: "Free", allowance: 3 } } }),
      lines: loads(3, "f"),
    },
    {
      name: "a load of somebody else refunded since, and their charges in the ledger",
      facts: sharedStage({
        tenants: { f: { tier: "Free", allowance: 3, used_at_start: 3 } },
        ledger: [...many(3, (at) => charge(`c${at}`, `f${2 * at}`, { org: "f" })), ...others],
      }),
      lines: [...loads(3, "f"), refusedLoad("r", "f", 100)],
    },
    { name: "use reported by the refusal", facts: unknownUse, lines: [refusedLoad("r", "f", 0)] },
  ],
  bad: [
    { name: "one too many", lines: [...loads(4, "f")], says: /f got 4 map loads/ },
    {
      name: "one too many while the clock was set, days from the calendar's edge",
      facts: { started_at_ms: Date.UTC(2026, 10, 22), clock_set_ms: 600_000 },
      lines: loads(4, "f"),
      says: /got 4/,
    },
    {
      name: "one too many tile sessions",
      lines: many(4, (at) => tileMint(`${at}`, { atMs: at } as Partial<CallLine>)),
      says: /got 4/,
    },
    { name: "never stops", lines: loads(30, "a"), says: /a got 30 map loads/ },
    {
      name: "one too many on top of what was used",
      facts: { tenants: { f: { tier: "Free", allowance: 3, used_at_start: 2 } } },
      lines: loads(2, "f"),
      says: /on top of 2/,
    },
    {
      name: "certain whatever nobody knows",
      lines: [...loads(4, "f"), lost("x", { route: "maps.loads", org: "f" })],
      says: /got 4/,
    },
    {
      name: "use reported by a refusal, and more afterwards",
      facts: unknownUse,
      lines: [refusedLoad("r", "f", 0), ...loads(1, "f", 100)],
      says: /on top of 3/,
    },
    {
      name: "one too many beside others",
      facts: sharedStage({ tenants: { f: { tier: "Free", allowance: 3 } } }),
      lines: [...loads(4, "f"), refusedLoad("r", "f", 100)],
      says: /f got 4/,
    },
    {
      name: "one too many tile sessions beside others, where sessions are refused",
      facts: sharedStage(),
      lines: [
        ...many(4, (at) => tileMint(`${at}`, { atMs: at } as Partial<CallLine>)),
        tileMint("r", { outcome: "429 map_load_quota_exceeded", sent_us: 50_000, done_us: 51_000 }),
      ],
      says: /f got 4/,
    },
    {
      name: "counts each load twice",
      facts: unknownUse,
      lines: [...loads(2, "f"), refusedLoad("r", "f", 100, 4)],
      says: /reports 4 used/,
    },
    { name: "reports more than may be", lines: [refusedLoad("r", "f", 0, 4)], says: /reports 4 used/ },
    {
      name: "more in the ledger",
      facts: { ledger: many(4, (at) => charge(`c${at}`, `x${at}`, { org: "f" })) },
      lines: [call("1", { org: "f" })],
      says: /ledger has 4/,
    },
  ],
  thin: [
    { name: "never there", lines: loads(2, "f"), verdict: "inconclusive", says: /came to its allowance/ },
    {
      name: "use not known",
      facts: unknownUse,
      lines: [...loads(2, "f")],
      verdict: "skipped",
      says: /used before the stage/,
    },
    {
      name: "refused beside others, who may have used the rest",
      facts: sharedStage(),
      lines: [...loads(2, "f"), refusedLoad("r", "f", 100)],
      verdict: "skipped",
      says: /exclusive/,
    },
    {
      name: "nobody's allowance known",
      facts: sharedStage({ tenants: {} }),
      lines: [...loads(4, "role:server"), refusedLoad("r", "role:server", 100)],
      verdict: "skipped",
      says: /allowance \(limit\)/,
    },
    {
      name: "sessions that may be no loads (A9)",
      facts: foreignStage(),
      lines: many(9, (at) => tileMint(`${at}`, { atMs: at } as Partial<CallLine>)),
      verdict: "inconclusive",
      says: /A9/,
    },
  ],
};

export const admitsWhatIsAllowed: Specimens = {
  good: [
    { name: "at the allowance", lines: [...loads(3, "f"), refusedLoad("r", "f", 100)] },
    {
      name: "used in part before a stage that began in the midst of a month",
      facts: {
        started_at_ms: Date.UTC(2026, 10, 22),
        tenants: { f: { tier: "Free", allowance: 3, used_at_start: 1 } },
      },
      lines: [...loads(2, "f"), refusedLoad("r", "f", 100)],
    },
    {
      name: "when calls that nobody knows of may have used it",
      lines: [...loads(2, "f"), lost("x", { route: "maps.loads", org: "f", atMs: 50 }), refusedLoad("r", "f", 100)],
    },
    {
      name: "while others are under way",
      lines: [...loads(2, "f"), load("slow", { org: "f", atMs: 50, tookMs: 3_000 }), refusedLoad("r", "f", 100)],
    },
    {
      name: "before and after the month's turn",
      lines: usedUpTwice,
    },
    {
      name: "loads of a role that may be of the same organization",
      facts: foreignStage(),
      lines: [...loads(1, "f"), ...loads(2, "role:publishable", 10), refusedLoad("r", "f", 100)],
    },
    {
      name: "the exchange at the allowance elsewhere (A8)",
      facts: foreignStage(),
      lines: [...loads(2, "a"), load("r", { atMs: 50, outcome: "429 map_load_quota_exceeded" })],
    },
  ],
  bad: [
    {
      name: "stops at the soft band",
      lines: [...loads(2, "a"), refusedLoad("r", "a", 100)],
      says: /2 in the stage; it ends at 10/,
    },
    {
      name: "forgets the new month",
      lines: inOrder(...loads(3, "f"), mark("new-month", 5_000), refusedLoad("r", "f", 6_000)),
      says: /at most 0 in the stage/,
    },
    { name: "refuses one too early", lines: [...loads(2, "f"), refusedLoad("r", "f", 100)], says: /it ends at 3/ },
    {
      name: "contradicts itself beside others",
      facts: sharedStage(unknownUse),
      lines: [refusedLoad("r", "f", 0, 1)],
      says: /1 of 3 are used/,
    },
    { name: "contradicts itself", facts: unknownUse, lines: [refusedLoad("r", "f", 0, 1)], says: /1 of 3 are used/ },
  ],
  thin: [
    {
      name: "a gateway mirrors each load, and the platform counts both",
      facts: foreignStage({ counts: { "200": { f: 4 } } }),
      lines: [...loads(2, "f"), refusedLoad("r", "f", 100)],
      verdict: "inconclusive",
      says: /at most 2 in the stage; it ends at 3, but the platform counted more calls than this run sent/,
    },
    { name: "nobody refused", lines: loads(1, "f"), verdict: "inconclusive", says: /no refusal/ },
    {
      name: "refused early beside others",
      facts: sharedStage(),
      lines: [...loads(1, "f"), refusedLoad("r", "f", 100)],
      verdict: "skipped",
      says: /exclusive/,
    },
    {
      name: "use not known",
      facts: foreignStage(unknownUse),
      lines: [...loads(1, "f"), refusedLoad("r", "f", 100)],
      verdict: "skipped",
      says: /use before the stage/,
    },
  ],
};

const shed = (id: string, more: Partial<CallLine> = {}): CallLine =>
  load(id, { outcome: "429 org_overloaded", ...more });

/** Each of ten loads is charged twice; the platform counted so many calls of them. */
const chargedTwice = (counted: number) =>
  foreignStage({
    counts: { "200": { a: counted } },
    ledger: many(10, (at) => [charge(`c${at}`, `${at}`), charge(`d${at}`, `${at}`)]).flat(),
  });
const tenLoads = many(10, (at) => load(`${at}`, { atMs: at }));
const SENT_TWICE = {
  name: "a gateway sends each call twice",
  facts: chargedTwice(20),
  lines: tenLoads,
  verdict: "inconclusive",
} as const;
const metered = (by: number, facts: Partial<StageFacts>): Partial<StageFacts> => ({
  ...facts,
  charges_differ: [{ org: "a", metered: by, ledger: facts.ledger?.length ?? 0 }],
});
const loadAndShed = [load("1"), shed("2")];
/** A ledger shows the double charge; that a gateway may have sent the call twice is said. */
const TWICE_UNCOUNTED = {
  name: "charged twice, and nothing says how often it came",
  facts: sharedStage({ ledger: [charge("c1", "1"), charge("c2", "1"), ...others] }),
  lines: loadAndShed,
};
const TWICE_AMONG_OTHERS = {
  name: "charged twice, and other callers' calls are counted too",
  facts: sharedStage({ counts: { "200": { a: 40 } }, ledger: [charge("c1", "1"), charge("c2", "1"), ...others] }),
  lines: loadAndShed,
  verdict: "inconclusive" as const,
};
const TWICE_BY_ITSELF = { name: "each call is charged twice, and came once", facts: chargedTwice(10), lines: tenLoads };
/** Fewer repeats than charges. */
const TWICE_IN_PART = { name: "more is charged than was sent twice", facts: chargedTwice(19), lines: tenLoads };

export const refusedIsNotCharged: Specimens = {
  good: [
    {
      name: "admitted and charged, refused and not",
      facts: { ledger: [charge("c1", "1")] },
      lines: [load("1"), shed("2"), call("3")],
    },
    {
      name: "refunded",
      facts: { ledger: [charge("c2", "2"), refund("c2", "2")] },
      lines: [load("2", { outcome: "429 limiter_unavailable" })],
    },
    {
      name: "not known, charged or not",
      facts: { ledger: [charge("c1", "1")] },
      lines: [lost("1", { route: "maps.loads" }), lost("2", { route: "maps.loads" }), shed("3")],
    },
    {
      name: "a refund still on its way",
      facts: { drained: false, faults: true, ledger: [charge("c1", "1")] },
      lines: [load("1", { outcome: "429 limiter_unavailable" }), shed("2")],
    },
    {
      name: "two calls under one id",
      facts: { ledger: [charge("c1", "1"), charge("c2", "1")] },
      lines: [load("1"), load("1", { atMs: 5 }), shed("2")],
    },
    {
      name: "others' charges in the ledger, and a session that may be no load (A9)",
      facts: sharedStage({ ledger: [charge("c1", "1"), refund("o1", "theirs0"), ...others] }),
      lines: [load("1"), tileMint("t"), shed("2")],
    },
    {
      name: "a store that knows no analyses",
      facts: foreignStage({ ledger: [charge("c1", "1")] }),
      lines: [load("1"), call("2", { route: "design.analyze" }), shed("3")],
    },
  ],
  bad: [
    { ...TWICE_BY_ITSELF, says: /charged 2 map_loads, not 1/ },
    { ...TWICE_IN_PART, says: /charged 2 map_loads, not 1/ },
    { ...TWICE_UNCOUNTED, says: /charged 2 map_loads, not 1/ },
    {
      name: "charges the refused beside others",
      facts: sharedStage({ ledger: [charge("c1", "1"), ...others] }),
      lines: [shed("1")],
      says: /refused with 429 org_overloaded and charged 1/,
    },
    {
      name: "charges the refused",
      facts: { ledger: [charge("c1", "1")] },
      lines: [shed("1")],
      says: /refused with 429 org_overloaded and charged 1/,
    },
    {
      name: "charges another product",
      facts: { ledger: [charge("c1", "1")] },
      lines: [call("1"), shed("2")],
      says: /admitted and charged 1 map_loads, not nothing/,
    },
    {
      name: "admits and does not charge",
      facts: { ledger: [] },
      lines: [load("1"), shed("2")],
      says: /not in the ledger/,
    },
    {
      name: "refunds what was admitted",
      facts: { ledger: [charge("c1", "1"), refund("c1", "1")] },
      lines: [load("1"), shed("2")],
      says: /charged 0/,
    },
    {
      name: "gives back more than it took",
      facts: { ledger: [refund("c1", "1")] },
      lines: [shed("1")],
      says: /add up to -1/,
    },
    {
      name: "takes two calls with one id for one",
      facts: { ledger: [charge("c1", "1")] },
      lines: [load("1"), load("1", { atMs: 5 }), shed("2")],
      says: /charged 1 map_loads, not 2/,
    },
    {
      name: "never refunds",
      facts: { ledger: [charge("c1", "1")] },
      lines: [load("1", { outcome: "429 limiter_unavailable" })],
      says: /limiter_unavailable and charged 1/,
    },
  ],
  thin: [
    { ...TWICE_AMONG_OTHERS, says: /may also be other callers'/ },
    { ...SENT_TWICE, says: /a gateway that retries, mirrors or hedges/ },
    {
      name: "a store with ids of its own",
      facts: sharedStage({ ledger: others }),
      lines: [load("1"), shed("2")],
      verdict: "skipped",
      says: /ids of our calls/,
    },
    {
      name: "never refunds elsewhere, as far as a ledger shows that may have been read too early",
      facts: foreignStage({ drained: false, faults: true, ledger: [1, 2, 3].map((at) => charge(`c${at}`, `${at}`)) }),
      lines: [...many(3, (at) => load(`${at}`, { outcome: "429 limiter_unavailable" })), shed("9")],
      verdict: "inconclusive",
      says: /limiter_unavailable and charged 1 map_loads, not nothing, and so for [12] more; .* refund may have followed/,
    },
    {
      name: "a refund that may still come",
      facts: foreignStage({ drained: false, ledger: [charge("c1", "1")] }),
      lines: [shed("1")],
      verdict: "inconclusive",
      says: /^refused with 429 org_overloaded and charged 1 map_loads, not nothing; the ledger .* drained/,
    },
    { name: "no ledger", lines: [shed("1")], verdict: "skipped", says: /ledger/ },
    {
      name: "charged twice in the ledger, and once by the organization's meter",
      facts: metered(10, chargedTwice(10)),
      lines: tenLoads,
      verdict: "inconclusive",
      says: /ledger has 20 map loads of a and its map_loads_used rose by 10.*by the ledger: fail/s,
    },
    {
      name: "charged once in the ledger, and not at all by the organization's meter",
      facts: metered(0, foreignStage({ ledger: [charge("c1", "1")] })),
      lines: loadAndShed,
      verdict: "inconclusive",
      says: /ledger has 1 map loads of a and its map_loads_used rose by 0.*by the ledger: pass/s,
    },
    {
      name: "nobody refused",
      facts: { ledger: [charge("c1", "1")] },
      lines: [load("1")],
      verdict: "inconclusive",
      says: /no call was refused/,
    },
  ],
};

export const chargedOnce: Specimens = {
  good: [
    {
      name: "charged, or charged and refunded",
      facts: { ledger: [charge("c1", "1"), charge("c2", "2"), refund("c2", "2")] },
      lines: [load("1"), lost("2")],
    },
    {
      name: "others charged as they please",
      facts: sharedStage({
        ledger: [charge("c1", "1"), charge("o", "theirs"), charge("o", "theirs"), refund("p", "x")],
      }),
      lines: [load("1")],
    },
  ],
  bad: [
    { ...TWICE_BY_ITSELF, says: /1 calls under this id are charged 2/ },
    { ...TWICE_IN_PART, says: /1 calls under this id are charged 2/ },
    { ...TWICE_UNCOUNTED, says: /1 calls under this id are charged 2/ },
    {
      name: "charges the retry again beside others",
      facts: sharedStage({ ledger: [charge("c1", "1"), charge("c2", "1"), ...others] }),
      lines: [load("1")],
      says: /charged 2/,
    },
    {
      name: "charges the retry again",
      facts: { ledger: [charge("c1", "1"), charge("c2", "1")] },
      lines: [load("1")],
      says: /1 calls under this id are charged 2/,
    },
    {
      name: "one charge twice",
      facts: { ledger: [charge("c1", "1"), charge("c1", "1")] },
      lines: [],
      says: /charged twice/,
    },
    {
      name: "refunds twice",
      facts: { ledger: [charge("c1", "1"), refund("c1", "1"), refund("c1", "1")] },
      lines: [],
      says: /refunded twice/,
    },
    {
      name: "refunds what was not charged",
      facts: { ledger: [refund("c1", "1")] },
      lines: [],
      says: /without a charge/,
    },
    {
      name: "refunds another amount",
      facts: { ledger: [charge("c1", "1"), refund("c1", "1", { amount: 2 })] },
      lines: [],
      says: /amount of the refund is 2/,
    },
    {
      name: "refunds into another month",
      facts: { ledger: [charge("c1", "1"), refund("c1", "1", { window: "2026-12" })] },
      lines: [],
      says: /window/,
    },
  ],
  thin: [
    { ...TWICE_AMONG_OTHERS, says: /may also be other callers'/ },
    { ...SENT_TWICE, says: /a gateway that retries, mirrors or hedges/ },
    {
      name: "a store with ids of its own",
      facts: sharedStage({ ledger: others }),
      lines: [load("1")],
      verdict: "skipped",
      says: /ids of our calls/,
    },
    { name: "no ledger", lines: [], verdict: "skipped", says: /ledger/ },
    {
      name: "nothing charged",
      facts: { ledger: [] },
      lines: [call("1")],
      verdict: "inconclusive",
      says: /nothing was charged/,
    },
  ],
};

const keyed = (id: string, atMs: number, more: Partial<CallLine> = {}): CallLine =>
  call(id, { atMs, bucket: "k", ...more });
const refusedKey = (id: string, atMs: number): CallLine => keyed(id, atMs, { outcome: "429 rate_limited" });
/** Ten a second after a burst of five, as a conforming limiter lets through. */
const atRate = [
  ...many(5, (at) => keyed(`b${at}`, at)),
  refusedKey("r", 10),
  ...many(20, (at) => keyed(`s${at}`, 110 + 100 * at)),
];

export const rateWithinAnyWindow: Specimens = {
  good: [
    { name: "burst, then rate", lines: atRate },
    {
      name: "less than that, because others call with the same key",
      facts: sharedStage(),
      lines: [keyed("1", 0), ...many(5, (at) => refusedKey(`r${at}`, 10 + at))],
    },
    {
      name: "slow answers may have been decided at any time",
      lines: [...many(9, (at) => keyed(`${at}`, at, { done_us: 900_000, first_us: 900_000 })), refusedKey("r", 10)],
    },
    {
      name: "a clock that may be off",
      lines: [...many(9, (at) => keyed(`${at}`, at, { clock_error_us: 500_000 })), refusedKey("r", 10)],
    },
    {
      name: "a bucket lost with its limiter",
      lines: inOrder(
        ...atRate.slice(0, 6),
        {
          type: "fault",
          stage: "s",
          experiment: "limiter.killed",
          link: "limiter",
          fault: "killed",
          stream: "both",
          phase: "injected",
          at_us: 50_000,
        },
        ...many(5, (at) => keyed(`n${at}`, 100 + at)),
      ),
    },
    {
      name: "each key has its own",
      lines: [...atRate, ...many(5, (at) => keyed(`o${at}`, 3000 + at, { bucket: "other" }))],
    },
  ],
  bad: [
    {
      name: "twice the rate beside others",
      facts: sharedStage(),
      lines: [...many(60, (at) => keyed(`${at}`, 50 * at)), refusedKey("r", 3100)],
      says: /k got/,
    },
    {
      name: "doubles at a window's edge",
      lines: inOrder(...many(10, (at) => keyed(`e${at}`, 990 + at)), ...many(10, (at) => keyed(`f${at}`, 1000 + at))),
      says: /calls more than burst 5 \+ 10\/s/,
    },
    {
      name: "twice the rate for long",
      lines: [...many(60, (at) => keyed(`${at}`, 50 * at)), refusedKey("r", 3100)],
      says: /k got/,
    },
  ],
  thin: [
    { name: "limits not known", facts: { limits: {} }, lines: atRate, verdict: "skipped", says: /rate_per_s/ },
    { name: "keys not known", lines: [call("1")], verdict: "skipped", says: /bucket/ },
    { name: "nobody pressed", lines: [keyed("1", 0)], verdict: "inconclusive", says: /pressed/ },
  ],
};

export const countsAgree: Specimens = {
  good: [
    {
      name: "three books alike",
      facts: {
        counts: { "200": { a: 1, f: 1 }, "401": { "-": 1 }, "429 b2b_overloaded": { "-": 2 } },
        ledger: [charge("c1", "1")],
      },
      lines: [
        load("1"),
        call("2", { org: "f" }),
        call("3", { org: "-", outcome: "401" }),
        shed("4", { outcome: "429 b2b_overloaded" }),
        shed("5", { outcome: "429 b2b_overloaded", org: "f" }),
      ],
    },
    {
      name: "a revoked key still served, nobody's to its caller",
      facts: { counts: { "200": { a: 2 } } },
      lines: [call("1"), call("2", { org: "-" })],
    },
    {
      name: "one nobody knows of, counted and charged",
      facts: { faults: true, counts: { "200": { a: 1 } }, ledger: [charge("c1", "1")] },
      lines: [lost("1", { route: "maps.loads" })],
    },
    {
      name: "one nobody knows of, not counted",
      facts: { counts: {}, ledger: [] },
      lines: [lost("1", { route: "maps.loads" })],
    },
    {
      name: "a balancer's answer",
      facts: { counts: { "200": { a: 1 } } },
      lines: [call("1", { outcome: "edge 504" })],
    },
    {
      name: "a replica that took its counts along",
      facts: { counts: { "200": { a: 1 } } },
      lines: inOrder(call("1"), mark("replicas-changed", 5), call("2", { atMs: 10 })),
    },
    {
      name: "others in the counts and in the ledger, refusals before authentication under any name",
      facts: sharedStage({
        counts: { "200": { a: 40 }, "401": { "-": 3 }, "422 malformed_body": { "-": 1 } },
        ledger: [charge("c1", "1"), ...others],
      }),
      lines: [load("1"), call("2", { org: "-", outcome: "401" }), call("3", { outcome: "422 malformed_body" })],
    },
  ],
  bad: [
    { ...TWICE_BY_ITSELF, says: /all was charged 20 map_loads/ },
    { ...TWICE_IN_PART, says: /all was charged 20 map_loads/ },
    { ...TWICE_UNCOUNTED, says: /charged 2/ },
    {
      name: "charged twice beside others",
      facts: sharedStage({ ledger: [charge("c1", "1"), charge("c2", "1"), ...others] }),
      lines: [load("1")],
      says: /charged 2/,
    },
    {
      name: "a call not counted",
      facts: { counts: { "200": { a: 1 } } },
      lines: [call("1"), call("2")],
      says: /callers saw 2, the platform counted 1/,
    },
    {
      name: "a call not written down",
      facts: { counts: { "200": { a: 2 } } },
      lines: [call("1")],
      says: /1 counted beyond/,
    },
    {
      name: "counted for another",
      facts: { counts: { "200": { f: 1 } } },
      lines: [call("1")],
      says: /\(a\): callers saw 1/,
    },
    {
      name: "more than the unknown excuse",
      facts: { counts: { "200": { a: 2 } } },
      lines: [lost("1")],
      says: /2 counted beyond/,
    },
    {
      name: "charged beside the calls",
      facts: { counts: { "200": { a: 1 } }, ledger: [charge("c1", "1"), charge("c2", "2")] },
      lines: [load("1")],
      says: /charged 2 map_loads/,
    },
    {
      name: "loads on the wrong organization",
      facts: { counts: { "200": { a: 1 } }, ledger: [charge("c1", "1", { org: "f" })] },
      lines: [load("1")],
      says: /a was charged 0/,
    },
  ],
  thin: [
    { ...TWICE_AMONG_OTHERS, says: /charges differ .* a gateway/ },
    { ...SENT_TWICE, says: /a gateway that retries or caches/ },
    {
      name: "answers that a gateway may have kept",
      facts: foreignStage({ counts: { "200": { a: 1 } } }),
      lines: [call("1"), call("2")],
      verdict: "inconclusive",
      says: /gateway/,
    },
    {
      name: "a store with ids of its own",
      facts: sharedStage({ ledger: others }),
      lines: [load("1")],
      verdict: "skipped",
      says: /ids of our calls/,
    },
    { name: "no books", facts: foreignStage(), lines: [call("1")], verdict: "skipped", says: /counts/ },
    { name: "no calls", lines: [], verdict: "inconclusive", says: /no call/ },
    {
      name: "read too early",
      facts: { drained: false, counts: {} },
      lines: [call("1")],
      verdict: "inconclusive",
      says: /^200 \(a\): callers saw 1, the platform counted 0, but the stage was not known to be drained/,
    },
  ],
};
