/**
 * A stream that a middleman collects and delivers in one piece is a slow answer with extra steps: the person sees nothing
 * until the end (items 8, 178). Judged by how far apart the first and the last event came, over many streams. A should: the
 * specification promises a stream, not a pace.
 */
import { routeOf } from "../contract/routes.ts";
import { Distribution } from "./evidence/distribution.ts";
import { isReference } from "./evidence/is-reference.ts";
import { isAdmitted } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

const ENOUGH_STREAMS = 10;
const ENOUGH_EVENTS = 4;
/** Streams that are over sooner than this may well fit into one packet. */
const WORTH_STREAMING_US = 100_000;
/** Buffered: nine streams of ten came within this share of their time. An honest one spreads over most of it. */
const SHARE = 0.02;
/** Somebody else's platform may think for long and then speak fast; one piece is read within this. */
const ONE_PIECE_US = 10_000;

export const eventsAreNotBuffered: Invariant = {
  id: "events-are-not-buffered",
  level: "should",
  time: { tail: 0.1, limitMs: WORTH_STREAMING_US / 1000 },
  spec: [8, 92, 178],
  statement: "the events of a stream come one after another, not all at its end",
  judge(facts) {
    const { limits } = facts;
    // Time spent waiting for a slot is not streaming time: where the service time is known, it is the measure.
    const serviceUs = limits.service_ms === undefined ? undefined : limits.service_ms * 1000;
    const spreads = new Distribution();
    const evidence = new Evidence();
    return {
      see(line) {
        if (line.type !== "call" || line.route === "-" || routeOf(line.route).stream === undefined) return;
        // What the last event of somebody else's stream is called is not known: there a clean end of the body is one.
        const ended = line.ended === "done" || (line.ended === "eof" && !isReference(facts));
        if (!isAdmitted(line) || !ended || line.first_event_us === undefined) return;
        if ((line.events ?? 0) < ENOUGH_EVENTS) return;
        const wholeUs = serviceUs ?? line.done_us - line.sent_us;
        if (wholeUs < WORTH_STREAMING_US) return;
        // In millionths of the whole, so that one distribution serves streams of any length.
        const spreadUs = (line.last_event_us ?? line.done_us) - line.first_event_us;
        const spread = (spreadUs / wholeUs) * 1_000_000;
        spreads.add(spread);
        if (spread < SHARE * 1_000_000 && (isReference(facts) || spreadUs < ONE_PIECE_US)) {
          evidence.breach(
            line.id,
            `${line.events} events within ${Math.round(spread / 1000) / 10} % of the stream's time`,
          );
        }
      },
      end() {
        const { count } = spreads;
        if (count < ENOUGH_STREAMS) {
          return unseen(`${count} complete streams of at least 100 ms and 4 events; 10 are needed`);
        }
        if (evidence.count >= 0.9 * count) return failed("streams came in one piece", evidence);
        const percent = Math.round(spreads.quantile(0.5) / 10_000);
        return passed(`half of ${count} streams spread over ${percent} % of their time or more`);
      },
    };
  },
};
