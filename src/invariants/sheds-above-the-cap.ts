/**
 * A cap that does not shed protects nothing: the platform takes in more than it can serve (items 210, 220). Judged by
 * three signs in callers' lines:
 *
 * - a call was admitted while as many streams as all replicas' caps were certainly in flight;
 * - streams piled up to twice the caps and waited for seconds, and no call of the stage was shed;
 * - the platform was full and collapsed: calls got no answer, or nearly nothing was served.
 *
 * The first is a lower bound, which other callers only raise, so it is judged on any deployment; something may stand
 * in front of a foreign one, so there it fails only by what no edge can cause (`SureSpans`). The others may be a queue
 * or a buffering edge in front of a foreign platform, so there they are doubts. The third is judged only where nobody
 * else calls.
 */
import type { CallLine } from "../history/line.ts";
import { changesCaps, changesReplicas, isReference } from "./evidence/deployment.ts";
import {
  BY_CONTENT,
  DIRECT_LINE,
  HeldStreams,
  isStream,
  SureSpans,
  type TimesAtServer,
} from "./evidence/held-streams.ts";
import { isAdmitted, isShed } from "./evidence/moments.ts";
import { AdmittedAbove, OverloadProgress } from "./evidence/overload.ts";
import { Evidence, failed, type Invariant, inconclusive, passed, skipped, unseen } from "./invariant.ts";

const ENOUGH_WAITING = 20;
const LONG_WAIT_US = 1_000_000;
const ENOUGH_LOST = 20;
/** Lowest share of capacity that counts as working. Below one fifth, so that a brownout to a fifth is no collapse. */
const WORKING_SHARE = 0.1;
const ENOUGH_FULL_US = 2_000_000;
const ENOUGH_POSSIBLE = 100;
const ENOUGH_SHEDS = 20;

type Weighing = { streams: HeldStreams; above: AdmittedAbove };

const weighingBy = (times: TimesAtServer): Weighing => ({
  streams: new HeldStreams(times),
  above: new AdmittedAbove(),
});

export const shedsAboveTheCap: Invariant = {
  id: "sheds-above-the-cap",
  level: "must",
  spec: [210, 211, 220],
  statement: "once the caps of all replicas are reached, calls are shed and those admitted are served",
  judge(facts) {
    const { shedding, limits, tenants, faults, exclusive } = facts;
    const { global_in_flight: globalCap, org_in_flight: orgCap, replicas, slots, service_ms: serviceMs } = limits;
    if (shedding !== "fixed") {
      return skipped(`fixed shedding (the target file says ${shedding}: sheds are counted, not judged)`);
    }
    if (globalCap === undefined || replicas === undefined) {
      return skipped("limits.global_in_flight and limits.replicas");
    }
    const cap = globalCap * replicas;
    /** What stands in front of a foreign deployment is unknown. */
    const isDirect = isReference(facts);
    const spans = new SureSpans(serviceMs);
    const byEnd = weighingBy(DIRECT_LINE);
    const byContent = isDirect ? byEnd : weighingBy(BY_CONTENT);
    const surely = isDirect ? byEnd : weighingBy(spans);
    const weighings = new Set([byEnd, byContent, surely]);
    const progress = new OverloadProgress(cap);
    const waiting = new Evidence();
    let sheds = 0;
    let globalSheds = 0;
    let moved = false;
    const weigh = (call: CallLine, { streams, above }: Weighing): void => {
      const own = (tenants[call.org]?.in_flight_cap ?? orgCap ?? Number.POSITIVE_INFINITY) * replicas;
      const slackUs = streams.outlasting(call, cap, own);
      // A call without an organization, or of one without a smaller cap, is judged by the total.
      const ofOrgUs = own < cap && call.org !== "-" ? slackUs.ofOrg : -1;
      const got = `admitted beside ${cap} streams; the caps add up to ${cap}`;
      if (slackUs.all >= ofOrgUs) above.admitted(call, slackUs.all, got);
      else above.admitted(call, ofOrgUs, `admitted beside ${own} streams of ${call.org}; its caps add up to ${own}`);
    };
    const judgeAdmitted = (call: CallLine): void => {
      for (const weighing of weighings) weigh(call, weighing);
      const waitedUs = (call.first_event_us ?? call.first_us ?? call.done_us) - call.sent_us;
      if (!isStream(call) || waitedUs < LONG_WAIT_US) return;
      const ahead = byEnd.streams.aheadOf(call);
      if (ahead >= 2 * cap) {
        waiting.breach(
          call.id,
          `waited ${Math.round(waitedUs / 1000)} ms behind ${ahead} streams, and nobody was shed`,
        );
      }
    };
    const collapse = (): Evidence | null => {
      const { lost, sent, came, fullUs, disturbed, sheds: cost } = progress;
      if (faults || moved || !exclusive) return null;
      if (lost.count >= ENOUGH_LOST && lost.count > (0.5 + progress.usuallyLost) * sent) {
        lost.first = `${lost.count} of ${sent} calls sent to the full platform got no answer`;
        return lost;
      }
      if (slots === undefined || serviceMs === undefined || disturbed || fullUs < ENOUGH_FULL_US) return null;
      // Quick sheds show a full platform rather than a slow way to it.
      if (cost.count < ENOUGH_SHEDS || cost.quantile(0.5) > (serviceMs * 1000) / 2) return null;
      const possible = (fullUs / (serviceMs * 1000)) * slots * replicas;
      if (possible < ENOUGH_POSSIBLE || came >= WORKING_SHARE * possible) return null;
      const evidence = new Evidence();
      evidence.count = 1;
      evidence.first = `${came} calls came out of the full platform, which can serve ${Math.round(possible)} in that time`;
      return evidence;
    };
    return {
      see(line) {
        moved ||= changesCaps(line) || changesReplicas(line);
        if (moved) return;
        progress.see(line);
        if (line.type !== "call") return;
        for (const { above } of weighings) above.see(line);
        if (line.outcome === "429 b2b_overloaded") globalSheds += 1;
        if (isShed(line)) sheds += 1;
        // Key management is not under the caps (A22).
        if (isAdmitted(line) && !line.route.startsWith("keys.")) judgeAdmitted(line);
        spans.see(line);
        for (const { streams } of weighings) streams.see(line);
      },
      end() {
        progress.finish();
        if (isDirect ? byEnd.above.isCertain() : surely.above.isTheRule()) {
          return failed("a call was admitted above the caps", surely.above.evidence);
        }
        if (globalSheds === 0 && !faults && !moved && waiting.count >= ENOUGH_WAITING) {
          if (isDirect) return failed("calls piled up and nobody was shed", waiting);
          const why = "calls piled up and nobody was shed; a queue in front of the platform would look the same";
          return inconclusive(why, waiting.first);
        }
        const collapsed = collapse();
        if (collapsed !== null && isDirect) {
          return failed("the platform collapsed when it was full", collapsed);
        }
        if (collapsed !== null) {
          const why = "little came out of the full platform; an edge that holds answers back would look the same";
          return inconclusive(why, collapsed.first);
        }
        // If calls were shed, an edge explains a late end; if none was, it may be the only sign of a missing cap.
        const seen = sheds === 0 ? [byContent.above, byEnd.above] : [byContent.above];
        const doubtful = seen.find((above) => above.isCertain());
        if (doubtful !== undefined) {
          const why =
            "streams went on for longer than the caps allow, but an edge in front that passes events on late would look the same";
          return inconclusive(why, doubtful.evidence.first);
        }
        if (byContent.above.evidence.count > 0 && !byContent.above.isExplained()) {
          const why = "too few calls stood above the caps to rule out the order of reading";
          return inconclusive(why, byContent.above.evidence.first);
        }
        if (sheds === 0) return unseen("the caps were never reached, so no shed was owed");
        return passed(`${sheds} calls were shed, and none was certainly admitted above the caps`);
      },
    };
  },
};
