/** Specimens of the judges of overload: shedding, neighbours, slots and the cost of a no. */
import type { CallLine } from "../../history/line.ts";
import {
  call,
  charge,
  foreignStage,
  inOrder,
  lost,
  many,
  mark,
  type Specimens,
  sharedStage,
  stream,
} from "./specimen.fixture.ts";

const shed = (id: string, atMs: number, more: Partial<CallLine> = {}): CallLine =>
  call(id, { atMs, route: "chat.control", outcome: "429 b2b_overloaded", retry_after: "1", ...more });
const orgShed = (id: string, atMs: number, more: Partial<CallLine> = {}): CallLine =>
  shed(id, atMs, { outcome: "429 org_overloaded", ...more });
/** Streams of several organizations side by side, from the same moment. */
const streams = (count: number, atMs = 0, more: Partial<CallLine> = {}): CallLine[] =>
  many(count, (at) => stream(`t${atMs}-${at}`, { atMs, org: `o${at}`, ...more }));

export const shedsOnlyOverTheCap: Specimens = {
  good: [
    { name: "at the cap", lines: [...streams(4), shed("x", 50)] },
    { name: "at the organization's cap", lines: [...streams(2, 0, { org: "a" }), orgShed("x", 50)] },
    {
      name: "reached at one moment of the call",
      lines: inOrder(...streams(3), shed("x", 50, { done_us: 90_000 }), stream("late", { atMs: 80 })),
    },
    {
      name: "calls without an answer may be in there still",
      lines: [...many(4, (at) => lost(`l${at}`, { tookMs: 5 })), shed("x", 50_000)],
    },
    {
      name: "those who left may be in there still",
      lines: [
        ...many(4, (at) => stream(`l${at}`, { tookMs: 20, ended: "closed_by_client", aborted: true })),
        shed("x", 50),
      ],
    },
    { name: "clocks that may be off", lines: [...streams(4, 0, { clock_error_us: 100_000 }), shed("x", 250)] },
    {
      name: "an own cap",
      facts: { tenants: { a: { tier: "Pro", in_flight_cap: 1 } } },
      lines: [stream("1"), orgShed("x", 50)],
    },
    {
      name: "elsewhere: a slot given back a moment late",
      facts: foreignStage(),
      lines: inOrder(...streams(4), shed("x", 50), shed("z", 400)),
    },
    {
      name: "elsewhere: sheds that count while they are, and a moment longer",
      facts: foreignStage(),
      lines: inOrder(...streams(3), shed("x", 50, { done_us: 60_000 }), shed("y", 55), shed("z", 100)),
    },
    {
      name: "elsewhere: the first shed at the cap, and many behind it that slots given back late explain",
      facts: foreignStage(),
      lines: inOrder(
        ...streams(2),
        ...streams(2, 1, { done_us: 400_000 }),
        shed("x", 50),
        ...many(30, (at) => shed(`y${at}`, 230)),
      ),
    },
    {
      name: "elsewhere: a role that may be of the same organization",
      facts: foreignStage(),
      lines: [...streams(1, 0, { org: "a" }), ...streams(1, 1, { org: "role:server" }), orgShed("x", 50)],
    },
    { name: "nobody was shed", lines: many(25, (at) => call(`${at}`, { atMs: at })) },
  ],
  bad: [
    {
      name: "streams that an earlier stage left are too few, or too long ago",
      facts: foreignStage({ held_before: [40_000, 60_000, 60_000, 60_000] }),
      lines: [shed("x", 50)],
      says: /at most 0 calls in flight/,
    },
    {
      name: "sheds too early elsewhere, where nothing says how often calls came",
      facts: foreignStage(),
      lines: [...streams(3), shed("x", 50)],
      says: /mirrors or hedges would look the same, if there is one.*\n.*at most 3/s,
    },
    {
      name: "sheds too early elsewhere, and each call came once",
      facts: foreignStage({ counts: { "200": { a: 3 }, "429 b2b_overloaded": { "-": 1 } } }),
      lines: [...streams(3), shed("x", 50)],
      says: /^a call was shed below the cap\n/,
    },
    { name: "sheds too early", lines: [...streams(3), shed("x", 50)], says: /at most 3 calls in flight; the cap is 4/ },
    {
      name: "leaks slots elsewhere: many are shed while nobody is in flight",
      facts: foreignStage(),
      lines: inOrder(...streams(4), ...many(30, (at) => shed(`x${at}`, 50 + 60 * at))),
      says: /at most [01] calls in flight; the cap is 4/,
    },
    { name: "after they were over", lines: [...streams(4), shed("x", 250)], says: /at most 0/ },
    { name: "sheds themselves do not count", lines: [...streams(3), shed("x", 50), shed("y", 50)], says: /at most 3/ },
    {
      name: "never four at one moment",
      lines: inOrder(
        ...streams(2),
        shed("x", 190, { done_us: 230_000 }),
        stream("l1", { atMs: 210 }),
        stream("l2", { atMs: 210 }),
      ),
      says: /at most 2/,
    },
    {
      name: "an organization below its cap",
      lines: [stream("1"), orgShed("x", 50)],
      says: /at most 1 calls of a in flight; the cap is 2/,
    },
    {
      name: "the wrong name: global for an organization",
      lines: [...streams(2, 0, { org: "a" }), shed("x", 50)],
      says: /b2b_overloaded with at most 2/,
    },
    {
      name: "the wrong name: an organization for the global",
      lines: [...streams(4), orgShed("x", 50)],
      says: /org_overloaded with at most 0/,
    },
  ],
  thin: [
    {
      name: "a gateway mirrors each call, and the platform counts both",
      facts: foreignStage({ counts: { "200": { a: 4 }, "429 b2b_overloaded": { "-": 2 } } }),
      lines: [...streams(2), shed("x", 50)],
      verdict: "inconclusive",
      says: /at most 2 calls in flight.* counted more calls than this run sent: a gateway that retries, mirrors/,
    },
    {
      name: "streams that an earlier stage left may hold slots still",
      facts: foreignStage({ held_before: [40_000, 60_000, 60_000, 60_000, 60_000] }),
      lines: [shed("x", 50)],
      verdict: "inconclusive",
      says: /at most 0 calls in flight; the cap is 4, and 4 calls of an earlier stage were left or cut/,
    },
    {
      name: "elsewhere: half of the cap is kept, and calls come so close together that sheds which count explain it",
      facts: foreignStage(),
      lines: inOrder(...streams(2), ...many(30, (at) => shed(`x${at}`, 50))),
      verdict: "inconclusive",
      says: /at most 2 of the cap of 4 in flight at any of 30 x 429 b2b_overloaded/,
    },
    {
      name: "elsewhere: slots never come back, and calls come so close together that sheds which count explain it",
      facts: foreignStage(),
      lines: inOrder(...streams(4), ...many(60, (at) => shed(`x${at}`, 50 + 10 * at))),
      verdict: "inconclusive",
      says: /less than half of the cap of 4 in flight at 44 of 60 x 429 b2b_overloaded/,
    },
    {
      name: "elsewhere: half of an organization's cap",
      facts: foreignStage(),
      lines: inOrder(stream("1"), ...many(30, (at) => orgShed(`x${at}`, 50))),
      verdict: "inconclusive",
      says: /at most 1 of the cap of 2 in flight at any of 30 x 429 org_overloaded/,
    },
    {
      name: "beside others",
      facts: sharedStage(),
      lines: [...streams(1), shed("x", 50), orgShed("y", 60)],
      verdict: "skipped",
      says: /exclusive/,
    },
    { name: "adaptive", facts: { shedding: "adaptive" }, lines: [shed("x", 0)], verdict: "skipped", says: /adaptive/ },
    {
      name: "caps not known",
      facts: { limits: {} },
      lines: [shed("x", 0)],
      verdict: "skipped",
      says: /global_in_flight/,
    },
    { name: "too few calls", lines: [call("1")], verdict: "inconclusive", says: /too few/ },
    {
      name: "caps changed before",
      lines: [mark("caps-changed", 0), shed("x", 50)],
      verdict: "inconclusive",
      says: /too few/,
    },
    {
      name: "a clock of no use",
      lines: [...streams(1), shed("x", 50, { clock_error_us: 3_000_000 })],
      verdict: "inconclusive",
      says: /clock/,
    },
  ],
};

const LATE_US = 300_000;
/** As an edge shows it that passes on the last event late. */
const endsLate = (line: CallLine): CallLine => ({
  ...line,
  done_us: line.done_us + LATE_US,
  gaps_us: (line.gaps_us ?? []).map((gap, at, all) => (at === all.length - 1 ? gap + LATE_US : gap)),
});
/** As an edge shows it that needs 80 ms for an event, and 50 for a refusal. */
const trickled = (line: CallLine): CallLine => ({
  ...line,
  first_event_us: (line.first_event_us ?? 0) + 80_000,
  gaps_us: many(7, () => 80_000),
  done_us: (line.first_event_us ?? 0) + 8 * 80_000,
});
const trickledShed = (id: string, atMs: number): CallLine => ({ ...shed(id, atMs), done_us: (atMs + 51) * 1000 });

/** Four streams, and `extra` more that were admitted beside them, spread over organizations. */
const above = (extra: number): CallLine[] => [
  ...streams(4),
  ...many(extra, (at) => stream(`e${at}`, { atMs: 50 + at, tookMs: 100, org: `x${at}` })),
];
const piledUp = many(60, (at) => stream(`p${at}`, { atMs: 10 * at, firstMs: 3_000, tookMs: 3_200, org: `o${at}` }));

export const shedsAboveTheCap: Specimens = {
  good: [
    { name: "shed at the cap", lines: [...streams(4), shed("x", 50)] },
    {
      name: "admitted as soon as one was over",
      lines: inOrder(
        ...streams(4),
        shed("x", 50),
        ...many(3, (at) => stream(`n${at}`, { atMs: 195 + at, org: `n${at}` })),
      ),
    },
    {
      name: "those without an answer are not certainly in",
      lines: [...many(6, (at) => lost(`l${at}`)), ...streams(1, 10), shed("x", 20)],
    },
    {
      name: "bytes read out of order",
      lines: inOrder(
        ...streams(4),
        shed("x", 50),
        ...many(3, (at) => stream(`n${at}`, { atMs: 180 + at, firstMs: 9, org: `n${at}` })),
      ),
    },
    {
      name: "one of hundreds beside a full cap, by less than a reader's stall delays other answers",
      lines: inOrder(
        ...many(150, (at) => streams(4, 300 * at)).flat(),
        ...many(30, (at) => shed(`x${at}`, 50 + 300 * at)),
        // Read late: its stall delays two of thirty refusals by as much.
        ...many(2, (at) => ({ ...shed(`late${at}`, 100 + 300 * at), done_us: (200 + 300 * at) * 1000 })),
        stream("beside", { atMs: 60, firstMs: 10, org: "n" }),
      ),
    },
    {
      name: "elsewhere: the last event 300 ms late, because it is moderated",
      facts: foreignStage(),
      lines: inOrder(
        ...many(20, (at) => streams(4, 210 * at))
          .flat()
          .map(endsLate),
        ...many(20, (at) => shed(`x${at}`, 50 + 210 * at)),
      ),
    },
    {
      name: "a replica more",
      lines: [...streams(4), shed("x", 40), mark("replicas-changed", 45), ...above(3).slice(4)],
    },
    {
      name: "clocks that may be off",
      lines: [...above(3).map((line) => ({ ...line, clock_error_us: 40_000 })), shed("x", 60)],
    },
    {
      name: "others have what comes out",
      facts: sharedStage({ limits: { replicas: 1, slots: 4, service_ms: 10, global_in_flight: 4 } }),
      lines: inOrder(
        ...streams(4, 0, { done_us: 5_000_000 }),
        ...many(50, (at) => shed(`x${at}`, 100 + 90 * at)),
        ...many(40, (at) => lost(`l${at}`, { atMs: 100 + at, tookMs: 4_000 })),
      ),
    },
    {
      name: "a full platform that empties and fills in one stroke",
      facts: { limits: { replicas: 1, slots: 16, service_ms: 100, global_in_flight: 16 } },
      lines: inOrder(
        ...many(30, (at) => streams(16, 100 * at, { done_us: (100 * at + 95) * 1000 })).flat(),
        ...many(25, (at) => shed(`x${at}`, 50 + 100 * at)),
      ),
    },
  ],
  bad: [
    {
      name: "never sheds, beside others",
      facts: sharedStage(),
      lines: above(14),
      says: /admitted beside 4 streams/,
    },
    { name: "never sheds", lines: above(14), says: /admitted beside 4 streams; the caps add up to 4/ },
    {
      name: "elsewhere: never sheds, by its content alone",
      facts: foreignStage(),
      lines: inOrder(...above(14).map(endsLate)),
      says: /admitted beside 4 streams; the caps add up to 4/,
    },
    {
      name: "an organization above its cap",
      lines: many(16, (at) => stream(`${at}`, { atMs: at < 2 ? 0 : 40 + at, tookMs: 150 })),
      says: /streams of a; its caps add up to 2/,
    },
    {
      name: "a few, on an even line",
      lines: [...above(3), ...many(25, (at) => call(`q${at}`, { atMs: 300 + at }))],
      says: /admitted beside 4 streams/,
    },
    { name: "piles up instead", lines: piledUp, says: /waited 3000 ms behind \d+ streams/ },
    {
      name: "collapses: no answers",
      lines: inOrder(
        ...streams(4, 0, { done_us: 60_000_000 }),
        shed("x", 50),
        ...many(40, (at) => lost(`l${at}`, { atMs: 100 + at, tookMs: 5_000 })),
      ),
      says: /got no answer/,
    },
    {
      name: "collapses: nothing comes out",
      facts: { limits: { replicas: 1, slots: 4, service_ms: 10, global_in_flight: 4 } },
      lines: inOrder(...streams(4, 0, { done_us: 5_000_000 }), ...many(50, (at) => shed(`x${at}`, 100 + 90 * at))),
      says: /4 calls came out of the full platform/,
    },
  ],
  thin: [
    {
      name: "elsewhere: each event held back and passed a few bytes at a time",
      facts: foreignStage(),
      lines: inOrder(
        ...many(20, (at) => streams(4, 210 * at))
          .flat()
          .map(trickled),
        ...many(20, (at) => trickledShed(`x${at}`, 50 + 210 * at)),
      ),
      verdict: "inconclusive",
      says: /an edge in front/,
    },
    {
      name: "elsewhere: whole answers, and nobody was shed",
      facts: foreignStage(),
      lines: above(14).map((line) => ({ ...line, gaps_us: many(7, () => 0) })),
      verdict: "inconclusive",
      says: /an edge in front/,
    },
    {
      name: "elsewhere: little comes out, which an edge that holds answers back would do",
      facts: foreignStage({ limits: { replicas: 1, slots: 4, service_ms: 10, global_in_flight: 4 } }),
      lines: inOrder(...streams(4, 0, { done_us: 5_000_000 }), ...many(50, (at) => shed(`x${at}`, 100 + 90 * at))),
      verdict: "inconclusive",
      says: /an edge that holds answers back/,
    },
    {
      name: "a queue before somebody else's platform",
      facts: foreignStage(),
      lines: piledUp,
      verdict: "inconclusive",
      says: /queue in front/,
    },
    { name: "never full", lines: streams(2), verdict: "inconclusive", says: /never reached/ },
    {
      name: "unknown shedding",
      facts: foreignStage({ shedding: "unknown" }),
      lines: [],
      verdict: "skipped",
      says: /unknown/,
    },
    {
      name: "replicas not known",
      facts: { limits: { global_in_flight: 4 } },
      lines: [],
      verdict: "skipped",
      says: /replicas/,
    },
    { name: "one alone above the cap", lines: above(1), verdict: "inconclusive", says: /order of reading/ },
  ],
};

const quiet = (id: string, atMs = 60): CallLine => call(id, { atMs, org: "q" });

export const organizationsDoNotShare: Specimens = {
  good: [
    {
      name: "one at its cap, one beside it",
      lines: inOrder(...streams(2, 0, { org: "a" }), orgShed("x", 50), quiet("1")),
    },
    {
      name: "each charged for its own",
      facts: { ledger: [charge("c1", "1"), charge("c2", "2", { org: "q" })] },
      lines: [call("1"), quiet("2")],
    },
    {
      name: "calls without an answer count as in flight",
      lines: inOrder(...many(2, (at) => lost(`l${at}`, { tookMs: 2 })), orgShed("x", 5_000), quiet("1")),
    },
    {
      name: "shed beside others who call in its name, each charged for its own",
      facts: sharedStage({ ledger: [charge("c1", "1"), charge("c2", "2", { org: "q" }), charge("o", "theirs")] }),
      lines: inOrder(call("1"), quiet("2"), orgShed("x", 70, { org: "q" })),
    },
  ],
  bad: [
    {
      name: "charges the neighbour beside others",
      facts: sharedStage({ ledger: [charge("c1", "1", { org: "q" }), charge("c2", "2", { org: "q" })] }),
      lines: [call("1"), quiet("2")],
      says: /a call of a was charged to q/,
    },
    {
      name: "sheds the neighbour",
      lines: inOrder(...streams(2, 0, { org: "a" }), orgShed("x", 50), orgShed("y", 55, { org: "q" }), quiet("1")),
      says: /q was shed with at most 0/,
    },
    {
      name: "charges the neighbour",
      facts: { ledger: [charge("c1", "1", { org: "q" })] },
      lines: [call("1"), quiet("2")],
      says: /a call of a was charged to q/,
    },
  ],
  thin: [
    {
      name: "shed beside others",
      facts: sharedStage(),
      lines: inOrder(orgShed("x", 50), quiet("1")),
      verdict: "skipped",
      says: /exclusive/,
    },
    {
      name: "a store with names of its own",
      facts: foreignStage({ ledger: [charge("c1", "1", { org: "7" }), charge("c2", "2", { org: "8" })] }),
      lines: [call("1"), quiet("2")],
      verdict: "skipped",
      says: /names organizations/,
    },
    {
      name: "nothing to judge by",
      facts: foreignStage({ shedding: "unknown" }),
      lines: [],
      verdict: "skipped",
      says: /ledger/,
    },
    { name: "everybody quiet", lines: [quiet("1")], verdict: "inconclusive", says: /no organization was shed/ },
  ],
};

const shedWithin = (ms: number): CallLine[] =>
  many(25, (at) => shed(`x${at}`, 10 * at, { done_us: (10 * at + ms) * 1000, first_us: (10 * at + ms) * 1000 }));

export const refusalsAreCheap: Specimens = {
  good: [
    { name: "quick", lines: [...streams(4), ...shedWithin(2)], says: /a quarter of 25 shed calls took \S+ ms or less/ },
    {
      name: "slow by the round trip alone",
      lines: [...many(5, (at) => call(`r${at}`, { tookMs: 150 })), ...shedWithin(155)],
    },
    { name: "a few slow ones", lines: [...streams(4), ...shedWithin(2), shed("s", 900, { done_us: 1_900_000 })] },
  ],
  bad: [
    { name: "sheds slowly", lines: [...streams(4), ...shedWithin(150)], says: /three quarters of 25 shed calls took/ },
  ],
  thin: [
    {
      name: "an uneven line",
      lines: shedWithin(2).map((line, at) => ({ ...line, done_us: line.done_us + 4_000 * at })),
      verdict: "inconclusive",
      says: /uneven/,
    },
    { name: "few sheds", lines: shedWithin(2).slice(0, 5), verdict: "inconclusive", says: /20 are needed/ },
    {
      name: "nothing to compare with",
      facts: { limits: {} },
      lines: shedWithin(2),
      verdict: "inconclusive",
      says: /compare/,
    },
  ],
};

export const slotsAreGivenBack: Specimens = {
  good: [
    {
      name: "nothing held",
      facts: { gauges: [{ in_flight: 0, in_flight_by_org: { a: 0 } }] },
      lines: [stream("1", { aborted: true, ended: "closed_by_client" })],
    },
  ],
  bad: [
    {
      name: "keeps the slot of a gone client",
      facts: {
        gauges: [
          { in_flight: 0, in_flight_by_org: {} },
          { in_flight: 1, in_flight_by_org: {} },
        ],
      },
      lines: [stream("1")],
      says: /replica 2 still has 1/,
    },
    {
      name: "keeps the organization's slot",
      facts: { gauges: [{ in_flight: 0, in_flight_by_org: { a: 2 } }] },
      lines: [stream("1")],
      says: /2 calls of a/,
    },
  ],
  thin: [
    {
      name: "slots that others may hold",
      facts: sharedStage({ gauges: [{ in_flight: 3, in_flight_by_org: { a: 3 } }] }),
      lines: [stream("1")],
      verdict: "skipped",
      says: /exclusive/,
    },
    { name: "no gauges", lines: [stream("1")], verdict: "skipped", says: /gauges/ },
    {
      name: "not drained",
      facts: { drained: false, gauges: [{ in_flight: 3, in_flight_by_org: {} }] },
      lines: [stream("1")],
      verdict: "inconclusive",
      says: /not drained/,
    },
    {
      name: "nobody called",
      facts: { gauges: [{ in_flight: 0, in_flight_by_org: {} }] },
      lines: [],
      verdict: "inconclusive",
      says: /no call/,
    },
  ],
};
