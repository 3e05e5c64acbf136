/**
 * A stream has at least one event, ends in exactly one way, and has nothing after it (section 6; items 168, 173). On the
 * reference platform each stream is judged, outside faults. Elsewhere `streams-cut` judges cuts, and the share of empty streams
 * is judged here. Last events other than `error` are known only if the target file states them.
 */
import { isUnanswered } from "../contract/refusals.ts";
import { routeOf, type Stream } from "../contract/routes.ts";
import { lastEventOf, streamResult } from "../contract/streams.ts";
import type { CallLine } from "../history/line.ts";
import { isReference } from "./evidence/deployment.ts";
import { isAdmitted } from "./evidence/moments.ts";
import { judgeStrays, shareWords } from "./evidence/stray-share.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, unseen } from "./invariant.ts";

const BROKEN = "a stream did not end exactly once, as it should";

/** Share of empty streams that a foreign deployment may have. */
const EMPTY_SHARE = 0.01;

type End = NonNullable<CallLine["ended"]>;

const CUTS = new Set<End>(["truncated", "reset", "eof", "timeout"]);

export const streamsEndOnce: Invariant = {
  id: "streams-end-once",
  level: "must",
  folded: true,
  spec: [168, 172, 173],
  statement: "each admitted stream has an event and ends once, with its terminal event or because the client left",
  judge(facts) {
    const ours = isReference(facts);
    const late = new Evidence();
    const cut = new Evidence();
    const empty = new Evidence();
    let judged = 0;
    let cutElsewhere = 0;
    let inOrder = 0;
    const hasEnded = (call: CallLine, stream: Stream): boolean =>
      ours || call.ended === "error_event" || lastEventOf(stream, facts.stream_end).isStated;
    return {
      see(line, alike = 1) {
        if (line.type !== "call" || line.route === "-" || !isAdmitted(line) || line.ended === undefined) return;
        const { stream } = routeOf(line.route);
        if (stream === undefined) return;
        if (!ours && streamResult(line) === "cut") {
          cutElsewhere += alike;
          return;
        }
        judged += alike;
        if (line.ended === "eof" && !lastEventOf(stream, facts.stream_end).isStated) inOrder += alike;
        const how = `ended in "${line.ended}" after ${line.events ?? "unknown"} events`;
        if ((line.late ?? 0) > 0 && hasEnded(line, stream)) {
          late.breach(line.id, `${line.late} events after the end (${line.ended}) on ${line.route}`);
        } else if (facts.faults || line.aborted === true) {
          // A fault may cut a stream, but not send events after its end.
        } else if (isUnanswered(line.outcome, line) && streamResult(line) === "empty") {
          const came = line.ended === "refused" ? "was answered without an event stream" : how;
          empty.breach(line.id, `${line.route} ${came}`);
        } else if (ours && CUTS.has(line.ended)) cut.breach(line.id, `${line.route} ${how}`);
      },
      end() {
        const strays = judgeStrays(empty.count, judged, ours ? 0 : (facts.limits.streams_cut_share ?? EMPTY_SHARE));
        const silent = `${empty.count} of ${judged} streams ended without one event (${shareWords(strays)})`;
        if (empty.count > 0 && (ours || strays.verdict === "broken")) {
          return { ...failed(silent, empty), reason: silent };
        }
        if (late.count > 0) return failed(BROKEN, late);
        if (cut.count > 0) return failed(BROKEN, cut);
        if (strays.verdict === "open") return inconclusive(`${silent}: too few to tell`, empty.first);
        const cuts = cutElsewhere === 0 ? "" : `; ${cutElsewhere} were cut, which streams-cut judges`;
        if (judged === 0) return unseen(`no admitted stream was seen to its end${cuts}`);
        const aside = `${empty.count === 0 ? "" : `; ${silent}`}${cuts}`;
        const unknown = inOrder === 0 ? "" : `, ${inOrder} of them by no event that is known to be their last`;
        return passed(`${judged} streams ended once${unknown}${aside}`);
      },
    };
  },
};
