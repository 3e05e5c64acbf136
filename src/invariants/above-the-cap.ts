/** Judges what happens at the caps: calls admitted above them, calls that pile up, a full platform that collapses. */
import { isStreamed } from "../contract/routes.ts";
import { Heap } from "../history/heap.ts";
import { type CallLine, type Line, lineTimeUs } from "../history/line.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { BY_CONTENT, DIRECT_LINE, heldStreams, sureSpans } from "./evidence/held-streams.ts";
import { changesCaps, changesReplicas, isAdmitted, isDefinite, isReference, isShed } from "./evidence/moments.ts";
import { Evidence, failed, inconclusive, type Judge, passed, skipped, unseen } from "./invariant.ts";

/** A busy load generator reads this much late, so smaller differences say nothing. */
const LEAST_MARGIN_US = 20_000;
const ENOUGH_QUICK = 20;
const ENOUGH_STANDING_OUT = 3;
const RULE_COUNT = 10;
const RULE_SHARE = 0.2;
/** A stalled reader sees bytes out of order in few calls; a cap that is too high shows in every call that fills it. */
const RARE_SHARE = 0.01;

/** Decides whether chance explains the calls admitted above a cap. */
const admittedAbove = () => {
  const evidence = new Evidence();
  const slacks = new Histogram();
  const quick = new Histogram();
  let all = 0;
  /** Counts calls above the cap for longer than connections' delays differ; 0 if quick answers are too few to tell. */
  const standingOut = (): number => {
    if (quick.n < ENOUGH_QUICK) return 0;
    const differUs = (quick.quantile(0.98) ?? 0) - (quick.quantile(0.02) ?? 0);
    return slacks.n - slacks.countUpTo(Math.max(LEAST_MARGIN_US, 1.5 * differUs));
  };
  const isTheRule = (): boolean => slacks.n >= RULE_COUNT && slacks.n >= RULE_SHARE * all;
  return {
    evidence,
    isTheRule,
    isCertain: (): boolean => isTheRule() || standingOut() >= ENOUGH_STANDING_OUT,
    /** Whether the calls above the cap are so few that the order of reading explains them. */
    isExplained: (): boolean => quick.n >= ENOUGH_QUICK && slacks.n <= RARE_SHARE * all && standingOut() === 0,
    /** Takes quick answers, which show how the delays of connections differ. */
    see: (call: CallLine): void => {
      if (isDefinite(call) && !(isStreamed(call) && isAdmitted(call))) quick.record(call.done_us - call.sent_us);
    },
    /** `slackUs`: for how long after this call's admission streams still filled the cap. */
    admitted: (call: CallLine, slackUs: number, got: string): void => {
      all += 1;
      if (slackUs < LEAST_MARGIN_US) return;
      slacks.record(slackUs);
      evidence.breach(call.id, got);
    },
  };
};

/** What a platform serves and loses while its caps, `full` calls in all, are full. */
const overloadProgress = (full: number) => {
  /** Calls in flight by the time of their end: `served` those that get an answer, `waiting` all but sheds. */
  const served = new Heap<CallLine>();
  const waiting = new Heap<null>();
  let nowUs = Number.NEGATIVE_INFINITY;
  let fullAtUs = Number.NEGATIVE_INFINITY;
  /** Calls sent while the caps were not full, and those of them that got no answer: what the network loses. */
  const below = { sent: 0, lost: 0 };
  const seen = {
    /** Microseconds during which calls that were answered later filled the caps. */
    fullUs: 0,
    /** Answered calls that were in flight while the caps were full, also if they ended later. */
    came: 0,
    sent: 0,
    lost: new Evidence(),
    sheds: new Histogram(),
    hasSlowReader: false,
  };
  const advance = (us: number): void => {
    if (nowUs !== Number.NEGATIVE_INFINITY && served.size >= full) {
      seen.fullUs += us - nowUs;
      fullAtUs = us;
    }
    nowUs = us;
  };
  const runUntil = (us: number): void => {
    while (waiting.least < us) waiting.pop();
    while (served.least < us) {
      advance(served.least);
      const { aborted, sent_us } = served.pop() as CallLine;
      // A call whose caller left was not served.
      if (aborted !== true && sent_us <= fullAtUs) seen.came += 1;
    }
    if (us !== Number.POSITIVE_INFINITY) advance(us);
  };
  return {
    see: (line: Line): void => {
      runUntil(lineTimeUs(line));
      if (line.type !== "call") return;
      if (line.slow_reader === true) seen.hasSlowReader = true;
      const cutOff = line.aborted === true || line.error === "connection_refused";
      const isLost = line.outcome === "indeterminate" && !cutOff;
      if (waiting.size < full) {
        below.sent += 1;
        if (isLost) below.lost += 1;
      } else {
        seen.sent += 1;
        if (isLost) seen.lost.breach(line.id, "no answer");
      }
      if (isShed(line)) {
        seen.sheds.record(line.done_us - line.sent_us);
        return;
      }
      waiting.push(line.done_us, null);
      if (isDefinite(line)) served.push(line.done_us, line);
    },
    end: () => {
      runUntil(Number.POSITIVE_INFINITY);
      return { ...seen, usuallyLost: (below.lost + 1) / (below.sent + 2) };
    },
  };
};

const ENOUGH_WAITING = 20;
const LONG_WAIT_US = 1_000_000;
const ENOUGH_LOST = 20;
/** Lowest share of capacity that counts as working. Below one fifth, so that a brownout to a fifth is no collapse. */
const WORKING_SHARE = 0.1;
const ENOUGH_FULL_US = 2_000_000;
const ENOUGH_POSSIBLE = 100;
const ENOUGH_SHEDS = 20;

const weighingBy = (times: Parameters<typeof heldStreams>[0]) => {
  return { streams: heldStreams(times), above: admittedAbove() };
};

/**
 * A cap that does not shed protects nothing (items 210, 220). Three signs in callers' lines:
 *
 * - a call was admitted while as many streams as all replicas' caps were certainly in flight;
 * - streams piled up to twice the caps and waited for seconds, and no call of the stage was shed;
 * - the platform was full and collapsed: calls got no answer, or nearly nothing was served.
 *
 * Other callers only raise the lower bound of the first sign. On a foreign deployment it fails only by times that no gateway can
 * cause (`sureSpans`), and the other two are inconclusive, because a queue or a buffering gateway may stand in front. The third
 * is judged only if nobody else calls.
 */
export const shedsAboveTheCap: Judge = (facts) => {
  const { shedding, limits, tenants, faults, exclusive } = facts;
  const { global_in_flight: globalCap, org_in_flight: orgCap, replicas, slots, service_ms: serviceMs } = limits;
  if (shedding !== "fixed") {
    return skipped("not-provided", `fixed shedding (the target file says ${shedding}: sheds are counted, not judged)`);
  }
  if (globalCap === undefined || replicas === undefined)
    return skipped("not-stated", "limits.global_in_flight and limits.replicas in the target file");
  const cap = globalCap * replicas;
  const isDirect = isReference(facts);
  const spans = sureSpans(serviceMs);
  const byEnd = weighingBy(DIRECT_LINE);
  const byContent = isDirect ? byEnd : weighingBy(BY_CONTENT);
  const surely = isDirect ? byEnd : weighingBy(spans);
  const weighings = new Set([byEnd, byContent, surely]);
  const progress = overloadProgress(cap);
  const waiting = new Evidence();
  let [sheds, globalSheds, moved] = [0, 0, false];
  const judgeAdmitted = (call: CallLine): void => {
    const own = (tenants[call.org]?.in_flight_cap ?? orgCap ?? Number.POSITIVE_INFINITY) * replicas;
    for (const { streams, above } of weighings) {
      const slackUs = streams.outlasting(call, cap, own);
      // The cap of the whole judges a call without an organization, and one whose organization has no smaller cap.
      const ofOrgUs = own < cap && call.org !== "-" ? slackUs.ofOrg : -1;
      const got = `admitted beside ${cap} streams; the caps add up to ${cap}`;
      if (slackUs.all >= ofOrgUs) above.admitted(call, slackUs.all, got);
      else above.admitted(call, ofOrgUs, `admitted beside ${own} streams of ${call.org}; its caps add up to ${own}`);
    }
    const waitedUs = (call.first_event_us ?? call.first_us ?? call.done_us) - call.sent_us;
    if (!isStreamed(call) || waitedUs < LONG_WAIT_US) return;
    const ahead = byEnd.streams.aheadOf(call);
    const got = `waited ${Math.round(waitedUs / 1000)} ms behind ${ahead} streams, and nobody was shed`;
    if (ahead >= 2 * cap) waiting.breach(call.id, got);
  };
  const collapse = (): Evidence | null => {
    const { lost, sent, came, fullUs, hasSlowReader, sheds: cost, usuallyLost } = progress.end();
    if (faults || moved || !exclusive) return null;
    if (lost.count >= ENOUGH_LOST && lost.count > (0.5 + usuallyLost) * sent) {
      lost.first = `${lost.count} of ${sent} calls sent to the full platform got no answer`;
      return lost;
    }
    if (slots === undefined || serviceMs === undefined || hasSlowReader || fullUs < ENOUGH_FULL_US) return null;
    // Quick sheds show that the platform is full and not just far away.
    if (cost.n < ENOUGH_SHEDS || (cost.quantile(0.5) ?? 0) > (serviceMs * 1000) / 2) return null;
    const possible = (fullUs / (serviceMs * 1000)) * slots * replicas;
    if (possible < ENOUGH_POSSIBLE || came >= WORKING_SHARE * possible) return null;
    const first = `${came} calls came out of the full platform, which can serve ${Math.round(possible)} in that time`;
    return Object.assign(new Evidence(), { count: 1, first });
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
      if (isDirect ? byEnd.above.isCertain() : surely.above.isTheRule()) {
        return failed("a call was admitted above the caps", surely.above.evidence);
      }
      if (globalSheds === 0 && !faults && !moved && waiting.count >= ENOUGH_WAITING) {
        if (isDirect) return failed("calls piled up and nobody was shed", waiting);
        const why = "calls piled up and nobody was shed; a queue in front of the platform would look the same";
        return inconclusive("ambiguous", why, waiting.first);
      }
      const collapsed = collapse();
      if (collapsed !== null) {
        if (isDirect) return failed("the platform collapsed when it was full", collapsed);
        const why = "little came out of the full platform; an edge that holds answers back would look the same";
        return inconclusive("ambiguous", why, collapsed.first);
      }
      // If calls were shed, a gateway explains streams that end late; otherwise those may be the only sign of a missing cap.
      const seen = sheds === 0 ? [byContent.above, byEnd.above] : [byContent.above];
      const doubtful = seen.find((above) => above.isCertain());
      if (doubtful !== undefined) {
        const edge = "but an edge in front that passes events on late would look the same";
        return inconclusive(
          "ambiguous",
          `streams went on for longer than the caps allow, ${edge}`,
          doubtful.evidence.first,
        );
      }
      if (byContent.above.evidence.count > 0 && !byContent.above.isExplained()) {
        const why = "too few calls stood above the caps to rule out the order of reading";
        return inconclusive("too-few-calls", why, byContent.above.evidence.first);
      }
      if (sheds === 0) return unseen("the caps were never reached, so no shed was owed");
      return passed(`${sheds} calls were shed, and none was certainly admitted above the caps`);
    },
  };
};
