/** Specimens of the judges of streams. */
import type { CallLine } from "../../history/line.ts";
import { faultSpan, foreignStage, inOrder, lost, many, type Specimens, stream } from "./specimen.fixture.ts";

const empty = (id: string, shape: Parameters<typeof stream>[1] = {}): CallLine => {
  const { first_event_us: _none, ...bare } = stream(id, { ended: "eof", outcome: "200 empty", ...shape });
  return { ...bare, events: 0 };
};

export const streamsEndOnce: Specimens = {
  good: [
    {
      name: "done, failed inside, left, left before the first event",
      lines: [
        stream("1"),
        stream("2", { outcome: "200 error", ended: "error_event" }),
        stream("3", { ended: "closed_by_client", aborted: true }),
        stream("4", { ended: "closed_by_client", aborted: true, events: 0 }),
        lost("5", { route: "chat.control" }),
      ],
    },
    {
      name: "cut while a fault lasts",
      facts: { faults: true },
      lines: [stream("1", { ended: "truncated" }), stream("2", { ended: "reset" }), empty("3")],
    },
    { name: "no last word elsewhere", facts: foreignStage(), lines: [stream("1", { ended: "eof" })] },
    {
      name: "elsewhere more comes after what the reference ends with",
      facts: foreignStage(),
      lines: [stream("1", { ended: "done", late: 1 })],
    },
    {
      name: "an empty one of two hundred elsewhere",
      facts: foreignStage(),
      lines: [...many(199, (at) => stream(`${at}`)), empty("nothing")],
    },
    { name: "refused", lines: [stream("1"), stream("2", { outcome: "429 b2b_overloaded", ended: "refused" })] },
  ],
  bad: [
    { name: "ends without done", lines: [stream("1", { ended: "truncated" })], says: /ended in "truncated"/ },
    { name: "ends without done, as it was recorded before", lines: [stream("1", { ended: "eof" })], says: /"eof"/ },
    {
      name: "talks after error",
      lines: [stream("1", { ended: "error_event", late: 2 })],
      says: /2 events after the end/,
    },
    {
      name: "talks after error while a fault lasts",
      facts: { faults: true },
      lines: [stream("1", { ended: "error_event", late: 1 })],
      says: /1 events after/,
    },
    {
      name: "talks after error elsewhere",
      facts: foreignStage(),
      lines: [stream("1", { ended: "error_event", late: 1 })],
      says: /1 events after/,
    },
    {
      name: "talks after the event that it states as its last",
      facts: foreignStage({ stream_end: { control: "fin" } }),
      lines: [stream("1", { late: 1 })],
      says: /1 events after/,
    },
    { name: "dropped at a deployment", lines: [stream("1", { ended: "reset" })], says: /"reset"/ },
    { name: "falls silent", lines: [stream("1", { ended: "timeout" })], says: /"timeout"/ },
    { name: "one that says nothing", lines: [stream("1"), empty("2")], says: /"eof" after 0 events/ },
    {
      name: "all that say nothing, elsewhere",
      facts: foreignStage(),
      lines: many(158, (at) => empty(`${at}`)),
      says: /"eof" after 0 events/,
    },
    {
      name: "two of a hundred that say nothing, elsewhere, among many",
      facts: foreignStage(),
      lines: many(900, (at) => (at % 50 === 0 ? empty(`${at}`) : stream(`${at}`))),
      says: /"eof" after 0 events/,
    },
    {
      name: "something else than a stream, elsewhere",
      facts: foreignStage(),
      lines: many(20, (at) => stream(`${at}`, { outcome: "200 empty", ended: "refused" })),
      says: /without an event stream/,
    },
  ],
  thin: [
    { name: "no stream", lines: [lost("1")], verdict: "inconclusive", says: /no admitted stream/ },
    {
      name: "one of few that says nothing, elsewhere",
      facts: foreignStage(),
      lines: [...many(30, (at) => stream(`${at}`)), empty("nothing")],
      verdict: "inconclusive",
      says: /1 of 31 streams ended without one event/,
    },
  ],
};

const cut = (id: string, shape: Parameters<typeof stream>[1] = {}): CallLine =>
  stream(id, { ended: "truncated", events: 4, ...shape });

/** So many streams, and the first of them cut. */
const someCut = (n: number, cuts: number, shape: Parameters<typeof stream>[1] = {}): CallLine[] =>
  many(n, (at) => (at < cuts ? cut(`${at}`, { atMs: at, ...shape }) : stream(`${at}`, { atMs: at })));

export const streamsCut: Specimens = {
  good: [
    { name: "a hundred streams without a cut", lines: someCut(100, 0) },
    {
      name: "a hundred without a cut elsewhere, with a last event that is known",
      facts: foreignStage(),
      lines: someCut(100, 0),
    },
    { name: "one of three hundred", facts: foreignStage(), lines: someCut(300, 1) },
    { name: "two of a thousand", facts: foreignStage(), lines: someCut(1_000, 2) },
    {
      name: "one of twenty, as the target file allows",
      facts: foreignStage({ limits: { streams_cut_share: 0.1 } }),
      lines: someCut(400, 20),
    },
    {
      name: "all that one of our faults overlaps",
      facts: { faults: true },
      lines: inOrder(
        ...faultSpan("api", "killed", 5_000, 6_000),
        ...many(40, (at) => stream(`whole${at}`, { atMs: at * 10 })),
        ...many(40, (at) => cut(`cut${at}`, { atMs: 4_900 + at })),
      ),
    },
    {
      name: "left, read slowly, failed inside",
      facts: foreignStage(),
      lines: [
        ...someCut(50, 0),
        ...many(20, (at) => cut(`left${at}`, { ended: "closed_by_client", aborted: true })),
        ...many(20, (at) => cut(`slow${at}`, { ended: "reset", slow_reader: true })),
        ...many(20, (at) => stream(`failed${at}`, { outcome: "200 error", ended: "error_event" })),
      ],
    },
  ],
  bad: [
    { name: "each of twenty", lines: someCut(20, 20), says: /"truncated" after 4 events/ },
    { name: "one in fifty", facts: foreignStage(), lines: someCut(900, 18), says: /"truncated" after 4 events/ },
    {
      name: "each without the event that is stated, by a body that ended in order",
      facts: foreignStage({ stream_end: { control: "done" } }),
      lines: many(246, (at) => cut(`${at}`, { events: 12, error: "no_last_event" })),
      says: /no_last_event.* after 12 events/,
    },
    {
      name: "reset before the first event",
      facts: foreignStage(),
      lines: [...someCut(50, 0), ...many(10, (at) => cut(`cut${at}`, { ended: "reset", events: 0 }))],
      says: /"reset" after 0 events/,
    },
    {
      name: "five in a thousand, which should not be",
      facts: foreignStage(),
      lines: someCut(1_500, 6),
      says: /"truncated" after 4 events/,
    },
    {
      name: "many outside our fault",
      facts: { faults: true },
      lines: inOrder(
        ...faultSpan("api", "killed", 50_000, 51_000),
        ...many(60, (at) => (at < 10 ? cut(`${at}`, { atMs: at * 10 }) : stream(`${at}`, { atMs: at * 10 }))),
      ),
      says: /"truncated"/,
    },
    {
      name: "at a change in order, which breaks nothing",
      lines: inOrder(...faultSpan("service", "rolling-deploy", 0, 9_000), ...someCut(100, 20)),
      says: /"truncated"/,
    },
  ],
  thin: [
    { name: "no stream", lines: [lost("1")], verdict: "inconclusive", says: /no admitted stream/ },
    {
      name: "one of a hundred",
      facts: foreignStage(),
      lines: someCut(100, 1),
      verdict: "inconclusive",
      says: /1 of 100/,
    },
    {
      name: "nine of nine hundred",
      facts: foreignStage(),
      lines: someCut(900, 9),
      verdict: "inconclusive",
      says: /9 of 900/,
    },
    {
      name: "each ended in order, by no event that is known",
      facts: foreignStage(),
      lines: many(100, (at) => stream(`${at}`, { ended: "eof" })),
      verdict: "skipped",
      says: /needs stream_end/,
    },
    {
      name: "some end by an event, and some in order without it",
      facts: foreignStage(),
      lines: many(100, (at) => stream(`${at}`, at < 20 ? { ended: "eof", events: 4 } : {})),
      verdict: "inconclusive",
      says: /20 ended in order without the event/,
    },
    {
      name: "all that fell silent",
      facts: foreignStage(),
      lines: many(20, (at) => stream(`${at}`, { ended: "timeout", events: 3 })),
      verdict: "inconclusive",
      says: /20 had not ended/,
    },
    {
      name: "inside our own fault alone",
      facts: { faults: true },
      lines: inOrder(...faultSpan("api", "killed", 100, 9_000), ...someCut(10, 10)),
      verdict: "skipped",
      says: /outside our own faults/,
    },
  ],
};

const said = (id: string, route: CallLine["route"], ...event_names: string[]): CallLine =>
  stream(id, { route, event_names });

export const streamVocabulariesDiffer: Specimens = {
  good: [
    {
      name: "each its own, and words that nobody knows",
      lines: [
        said("1", "chat.control", "token", "quota", "done"),
        said("2", "chat.summary", "summary_delta", "weather", "summary_done"),
        said("3", "chat.button", "chunk", "error"),
      ],
    },
  ],
  bad: [
    {
      name: "speaks control everywhere",
      lines: [said("1", "chat.control", "token", "done"), said("2", "chat.summary", "token", "done")],
      says: /summary stream sent token, done/,
    },
    {
      name: "a meter on a button",
      lines: [said("1", "chat.button", "chunk", "quota")],
      says: /button stream sent quota/,
    },
  ],
  thin: [
    { name: "one kind", lines: [said("1", "chat.control", "token")], verdict: "inconclusive", says: /1 of the 3/ },
    { name: "another deployment", facts: foreignStage(), lines: [], verdict: "skipped", says: /event names/ },
  ],
};

const paced = (spreadMs: number): CallLine[] =>
  many(12, (at) => stream(`${at}`, { atMs: 10 * at, firstMs: 200 - spreadMs, last_event_us: (10 * at + 200) * 1000 }));

export const eventsAreNotBuffered: Specimens = {
  good: [
    { name: "one after another", lines: paced(180) },
    {
      name: "one after another elsewhere, to a last event with a name of its own",
      facts: foreignStage(),
      lines: paced(180).map((line) => ({ ...line, ended: "eof" })),
    },
    {
      name: "after a long wait for a slot",
      lines: paced(180).map((line) => ({ ...line, sent_us: line.sent_us - 60_000_000 })),
    },
    { name: "some in one piece", lines: [...paced(180), ...paced(1).slice(0, 6)] },
  ],
  bad: [
    { name: "all at the end", lines: paced(1), says: /8 events within 0\.5 %/ },
    { name: "all at the end elsewhere", facts: foreignStage({ limits: {} }), lines: paced(1), says: /8 events within/ },
    {
      name: "all at the end elsewhere, where the last event has a name of its own",
      facts: foreignStage({ limits: {} }),
      lines: paced(1).map((line) => ({ ...line, ended: "eof" })),
      says: /8 events within/,
    },
  ],
  thin: [{ name: "few", lines: paced(180).slice(0, 3), verdict: "inconclusive", says: /10 are needed/ }],
};
