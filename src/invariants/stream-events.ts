/** Judges the events of streams: each kind uses its own names, and events come one after another. */
import { isStreamed, routeOf, type Stream } from "../contract/routes.ts";
import { eventNamesOf, VOCABULARIES } from "../contract/streams.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { isAdmitted, isReference } from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, unseen } from "./invariant.ts";

/** Event names of the other streams. Unknown names are ignored (item 172). */
const foreignTo = (stream: Stream): ReadonlySet<string> => {
  const all = (Object.keys(VOCABULARIES) as Stream[]).flatMap(eventNamesOf);
  const own = new Set(eventNamesOf(stream));
  return new Set(all.filter((name) => !own.has(name)));
};

/** Only `error` and `quota` are specified, so only the reference platform is judged (items 95, 104, 105; A10). */
export const streamVocabulariesDiffer: Judge = (facts) => {
  if (!isReference(facts))
    return skipped("not-provided", "the event names of this deployment, which the specification leaves open");
  const foreign = { control: foreignTo("control"), summary: foreignTo("summary"), button: foreignTo("button") };
  const evidence = new Evidence();
  const spoken = new Set<Stream>();
  return {
    see(line) {
      if (line.type !== "call" || line.route === "-" || !isAdmitted(line)) return;
      const { stream } = routeOf(line.route);
      if (stream === undefined || line.event_names === undefined) return;
      const borrowed = line.event_names.filter((name) => foreign[stream].has(name));
      if (borrowed.length > 0)
        evidence.breach(line.id, `the ${stream} stream sent ${borrowed.join(", ")}, events of another kind of stream`);
      if (line.event_names.some((name) => VOCABULARIES[stream].content.includes(name))) spoken.add(stream);
    },
    end() {
      if (evidence.count > 0) return failed("a stream used another stream's event names", evidence);
      if (spoken.size < 2) return inconclusive("not-reached", `${spoken.size} of the 3 kinds of stream were seen`);
      return passed(`${[...spoken].sort().join(", ")} each used its own event names`);
    },
  };
};

const ENOUGH_STREAMS = 10;
const ENOUGH_EVENTS = 4;
/** A shorter stream may fit into one packet. */
export const WORTH_STREAMING_MS = 100;
/** The events of a buffered stream arrive within this share of its time; others spread over most of it. */
const SHARE = 0.02;
/** A foreign platform may compute long and send fast; a buffered piece is read within this time. */
const ONE_PIECE_US = 10_000;

/** A buffering intermediary shows nothing until the end (items 8, 178). A should: the specification promises no pace. */
export const eventsAreNotBuffered: Judge = (facts) => {
  const { limits } = facts;
  // Prefers the service time, because waiting for a slot is not streaming.
  const serviceUs = limits.service_ms === undefined ? undefined : limits.service_ms * 1000;
  const spreads = new Histogram();
  const evidence = new Evidence();
  return {
    see(line) {
      if (line.type !== "call" || !isStreamed(line)) return;
      // A foreign stream's last event is unknown, so a clean end of the body counts.
      const ended = line.ended === "done" || (line.ended === "eof" && !isReference(facts));
      if (!isAdmitted(line) || !ended || line.first_event_us === undefined) return;
      if ((line.events ?? 0) < ENOUGH_EVENTS) return;
      const wholeUs = serviceUs ?? line.done_us - line.sent_us;
      if (wholeUs < WORTH_STREAMING_MS * 1000) return;
      // In millionths, so that streams of any length share a distribution.
      const spreadUs = (line.last_event_us ?? line.done_us) - line.first_event_us;
      const spread = (spreadUs / wholeUs) * 1_000_000;
      spreads.record(spread);
      if (spread < SHARE * 1_000_000 && (isReference(facts) || spreadUs < ONE_PIECE_US)) {
        const share = `${Math.round(spread / 1000) / 10} % of the stream's time`;
        evidence.breach(line.id, `${line.events} events within ${share}`);
      }
    },
    end() {
      const { n } = spreads;
      if (n < ENOUGH_STREAMS) return unseen(`${n} complete streams of at least 100 ms and 4 events; 10 are needed`);
      if (evidence.count >= 0.9 * n) return failed("streams came in one piece", evidence);
      const percent = Math.round((spreads.quantile(0.5) ?? 0) / 10_000);
      return passed(`half of ${n} streams spread over ${percent} % of their time or more`);
    },
  };
};
