/** Specimens of the judges of streams. */
import type { CallLine } from "../../history/line.ts";
import { foreignStage, lost, many, type Specimens, sharedStage, stream } from "./specimen.fixture.ts";

export const streamsEndOnce: Specimens = {
  good: [
    {
      name: "done, failed inside, left",
      lines: [
        stream("1"),
        stream("2", { outcome: "200 error", ended: "error_event" }),
        stream("3", { ended: "closed_by_client", aborted: true }),
        lost("4", { route: "chat.control" }),
      ],
    },
    {
      name: "cut while a fault lasts",
      facts: { faults: true },
      lines: [stream("1", { ended: "truncated" }), stream("2", { ended: "reset" })],
    },
    { name: "no last word elsewhere", facts: foreignStage(), lines: [stream("1", { ended: "eof" })] },
    {
      name: "one cut of a hundred elsewhere, and a reader given up on",
      facts: sharedStage(),
      lines: [
        ...many(100, (at) => stream(`${at}`)),
        stream("cut", { ended: "reset" }),
        ...many(5, (at) => stream(`slow${at}`, { ended: "reset", slow_reader: true })),
      ],
    },
    { name: "refused", lines: [stream("1"), stream("2", { outcome: "429 b2b_overloaded", ended: "refused" })] },
  ],
  bad: [
    { name: "ends without done", lines: [stream("1", { ended: "eof" })], says: /ended in "eof"/ },
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
    { name: "dropped at a deployment", lines: [stream("1", { ended: "reset" })], says: /"reset"/ },
    {
      name: "truncated elsewhere",
      facts: foreignStage(),
      lines: many(3, (at) => stream(`${at}`, { ended: "truncated" })),
      says: /"truncated"/,
    },
    { name: "falls silent", lines: [stream("1", { ended: "timeout" })], says: /"timeout"/ },
  ],
  thin: [
    { name: "no stream", lines: [lost("1")], verdict: "inconclusive", says: /no admitted stream/ },
    {
      name: "one cut of few elsewhere",
      facts: foreignStage(),
      lines: [stream("1"), stream("2", { ended: "truncated" })],
      verdict: "inconclusive",
      says: /too few streams/,
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
      says: /summary stream spoke token, done/,
    },
    {
      name: "a meter on a button",
      lines: [said("1", "chat.button", "chunk", "quota")],
      says: /button stream spoke quota/,
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
