/**
 * A buffering intermediary shows the reader nothing until the stream's end (items 8, 178). Judged by the time between first and
 * last event over many streams. A should, because the specification promises no pace.
 */
import { routeOf } from "../contract/routes.ts";
import { isReference } from "./evidence/deployment.ts";
import { Distribution } from "./evidence/distribution.ts";
import { isAdmitted } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

const ENOUGH_STREAMS = 10;
const ENOUGH_EVENTS = 4;
/** A shorter stream may fit into one packet. */
const WORTH_STREAMING_US = 100_000;
/** Nine of ten buffered streams arrive within this share of their time; others spread over most of it. */
const SHARE = 0.02;
/** A foreign platform may compute long and send fast; a buffered piece is read within this time. */
const ONE_PIECE_US = 10_000;

export const eventsAreNotBuffered: Invariant = {
  id: "events-are-not-buffered",
  level: "should",
  time: { tail: 0.1, limitMs: WORTH_STREAMING_US / 1000 },
  spec: [8, 92, 178],
  statement: "the events of a stream come one after another, not all at its end",
  judge(facts) {
    const { limits } = facts;
    // Prefers the service time, because waiting for a slot is not streaming.
    const serviceUs = limits.service_ms === undefined ? undefined : limits.service_ms * 1000;
    const spreads = new Distribution();
    const evidence = new Evidence();
    return {
      see(line) {
        if (line.type !== "call" || line.route === "-" || routeOf(line.route).stream === undefined) return;
        // A foreign stream's last event is unknown, so a clean end of the body counts.
        const ended = line.ended === "done" || (line.ended === "eof" && !isReference(facts));
        if (!isAdmitted(line) || !ended || line.first_event_us === undefined) return;
        if ((line.events ?? 0) < ENOUGH_EVENTS) return;
        const wholeUs = serviceUs ?? line.done_us - line.sent_us;
        if (wholeUs < WORTH_STREAMING_US) return;
        // In millionths, so that streams of any length share a distribution.
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
