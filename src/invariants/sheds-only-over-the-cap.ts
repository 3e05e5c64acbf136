/**
 * A shed below the cap refuses a customer for nothing, and its subcode says whether to wait or to send less (items 210, 211, 220,
 * 221). Legal only if the calls in flight can have reached one replica's cap. This upper bound needs all calls, so it is judged
 * only where nobody else calls.
 */
import { type CallLine, lineTimeUs } from "../history/line.ts";
import { changesCaps, isReference, skippedWhenShared } from "./evidence/deployment.ts";
import { isDefinite, isShed, latestUs, MARK_MARGIN_US } from "./evidence/moments.ts";
import { MostInFlight } from "./evidence/most-in-flight.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

/** Answers that make a pass without a shed. */
const ENOUGH = 20;

export const shedsOnlyOverTheCap: Invariant = {
  id: "sheds-only-over-the-cap",
  level: "must",
  spec: [210, 211, 220, 221],
  statement: "a call is shed only when the cap that its subcode names can have been reached",
  judge(facts) {
    const { shedding, limits, tenants, exclusive } = facts;
    if (shedding !== "fixed") {
      return skipped(`fixed shedding (the target file says ${shedding}: sheds are counted, not judged)`);
    }
    const { global_in_flight: globalCap, org_in_flight: orgCap } = limits;
    if (globalCap === undefined && orgCap === undefined) {
      return skipped("limits.global_in_flight and limits.org_in_flight");
    }
    if (!exclusive) {
      return skippedWhenShared("others may have filled the cap at which a call was shed");
    }
    const evidence = new Evidence();
    let sheds = 0;
    let others = 0;
    let capsUntilUs = Number.POSITIVE_INFINITY;
    /**
     * For each outcome: sheds that the admitted calls explain (`plain`), sheds at less than half of the cap (`far`), and the most
     * calls in flight at any.
     */
    const kinds = new Map<string, { sheds: number; plain: number; far: number; most: number; cap: number }>();
    type Seen = { seen: number; cap: number; whose: string };
    const seenBy = (call: CallLine, most: number, mostOfOrg: number): Seen | null => {
      if (latestUs(call) >= capsUntilUs) return null;
      const global = call.outcome === "429 b2b_overloaded";
      if (!global && call.org === "-") return null;
      const cap = global ? globalCap : (tenants[call.org]?.in_flight_cap ?? orgCap);
      if (cap === undefined) return null;
      return { seen: global ? most : mostOfOrg, cap, whose: global ? "in flight" : `of ${call.org} in flight` };
    };
    const judgeShed = (call: CallLine, most: number, mostOfOrg: number): void => {
      const found = seenBy(call, most, mostOfOrg);
      if (found === null) return;
      sheds += 1;
      const { seen, cap, whose } = found;
      if (seen < cap)
        evidence.breach(call.id, `${call.outcome} with at most ${seen} calls ${whose}; the cap is ${cap}`);
    };
    const countPlain = (call: CallLine, most: number, mostOfOrg: number): void => {
      const found = seenBy(call, most, mostOfOrg);
      if (found === null) return;
      const kind = kinds.get(call.outcome) ?? { sheds: 0, plain: 0, far: 0, most: 0, cap: found.cap };
      kinds.set(call.outcome, kind);
      kind.sheds += 1;
      if (found.seen >= found.cap) kind.plain += 1;
      if (found.seen < found.cap / 2) kind.far += 1;
      if (found.seen > kind.most) Object.assign(kind, { most: found.seen, cap: found.cap });
    };
    const isOurs = isReference(facts);
    const flight = new MostInFlight(judgeShed, isOurs);
    const narrow = isOurs ? null : new MostInFlight(countPlain, true);
    return {
      see(line) {
        if (changesCaps(line)) capsUntilUs = Math.min(capsUntilUs, lineTimeUs(line) - MARK_MARGIN_US);
        const watched = line.type === "call" && isShed(line);
        flight.see(line, watched);
        narrow?.see(line, watched);
        if (line.type === "call" && isDefinite(line) && !watched) others += 1;
      },
      end() {
        flight.finish();
        narrow?.finish();
        if (flight.lost) return inconclusive("a clock was off by more than a second");
        if (evidence.count > 0) return failed("a call was shed below the cap", evidence);
        for (const [outcome, { sheds: all, plain, far, most, cap }] of kinds) {
          if (all < ENOUGH || (plain > 0 && far <= all / 2)) continue;
          const got =
            plain === 0
              ? `at most ${most} of the cap of ${cap} in flight at any of ${all} x ${outcome}`
              : `less than half of the cap of ${cap} in flight at ${far} of ${all} x ${outcome}`;
          const why = `${got}: a lower cap, slots that never come back, or sheds that count themselves, would look the same`;
          return inconclusive(why, got);
        }
        if (sheds > 0) return passed(`each of ${sheds} sheds came when the cap can have been reached`);
        if (others < ENOUGH) return unseen("too few calls, and none was shed");
        return passed(`none of ${others} calls was shed`);
      },
    };
  },
};
