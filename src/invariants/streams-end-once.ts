/**
 * A stream that stops without its last word looks complete to a person and is not; one that goes on after `error` makes a
 * client show both (section 6; items 168, 173). Each ends in exactly one way, and nothing comes after it. Only the
 * reference platform promises `done` (item 173): elsewhere an end without it is for `verify` to warn of. Between us and
 * somebody else's platform stand balancers that cut a stream now and then, and it may give up on a reader that does not
 * read: a few cuts are strays there.
 */
import { routeOf } from "../contract/routes.ts";
import type { CallLine } from "../history/line.ts";
import { isReference } from "./evidence/is-reference.ts";
import { isAdmitted } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, unseen } from "./invariant.ts";

const EXPECTED = "each admitted stream ends once, with its terminal event or because the client left";

/** Cuts that a line may make, on a deployment that is not ours. */
const STRAY_SHARE = 0.02;
const STRAYS = 2;

type End = NonNullable<CallLine["ended"]>;

export const streamsEndOnce: Invariant = {
  id: "streams-end-once",
  level: "must",
  folded: true,
  spec: [168, 172, 173],
  statement: EXPECTED,
  judge(facts) {
    const ours = isReference(facts);
    // A fault may cut any stream; what may not happen even then is that it talks on after its end.
    const cuts: readonly End[] = ["truncated", "reset", "refused"];
    const faulty = new Set<End>(facts.faults ? [] : ours ? [...cuts, "eof", "timeout"] : cuts);
    const evidence = new Evidence();
    const cut = new Evidence();
    let judged = 0;
    return {
      see(line, alike = 1) {
        if (line.type !== "call" || line.route === "-" || routeOf(line.route).stream === undefined) return;
        if (!isAdmitted(line) || line.ended === undefined) return;
        judged += alike;
        if ((line.late ?? 0) > 0) {
          evidence.breach(line.id, `${line.late} events after the end (${line.ended}) on ${line.route}`);
        } else if (faulty.has(line.ended) && line.aborted !== true && (ours || line.slow_reader !== true)) {
          cut.breach(line.id, `${line.route} ended in "${line.ended}" after ${line.events ?? "unknown"} events`);
        }
      },
      end() {
        if (evidence.count > 0) return failed("a stream did not end exactly once, as it should", EXPECTED, evidence);
        const strays = ours ? 0 : STRAY_SHARE * judged;
        if (cut.count > (ours ? 0 : Math.max(STRAYS, strays))) {
          return failed("a stream did not end exactly once, as it should", EXPECTED, cut);
        }
        if (cut.count > strays)
          return inconclusive("too few streams: a line that cuts one looks the same", EXPECTED, cut.first);
        if (judged === 0) return unseen("no admitted stream was seen to its end", EXPECTED);
        const aside = cut.count === 0 ? "" : `, ${cut.count} that were cut aside`;
        return passed(`${judged} streams ended once${aside}`, EXPECTED);
      },
    };
  },
};
