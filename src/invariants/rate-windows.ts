/** Calls admitted beyond a key's rate, over every window of time. */
import { RATE_LIMITED } from "../contract/refusals.ts";
import { Heap } from "../history/heap.ts";
import { type CallLine, lineTimeUs } from "../history/line.ts";
import { known } from "../history/statistics/statistics.ts";
import { changesReplicas, decidedByUs, earliestUs, isAdmitted, isReference } from "./evidence/moments.ts";
import { Evidence, failed, type Judge, passed, skipped, unseen } from "./invariant.ts";

/** Calls may arrive this much out of order; younger edges are not merged. */
const LAG_US = 2_000_000;

type Span = { fromUs: number; toUs: number; id: string };

/**
 * By how much a key's admitted calls exceed a rate limit, over every window of time at once:
 *
 *     calls admitted wholly inside [a, b]  <=  burst + rate x (b - a) + 1
 *
 * A call lies inside a window only if its whole decision span does: from its sending to its first byte, widened by the
 * clock's error. For each left edge `a` of a window one number is kept, count + rate x a. The numbers of all edges before
 * the undecided calls grow alike, so only the largest of them is kept.
 */
const rateBound = (ratePerS: number, burst: number) => {
  const perUs = ratePerS / 1_000_000;
  const undecided = new Heap<Span>();
  let edges: { fromUs: number; level: number }[] = [];
  let mergeAt = 64;
  let resetUs = Number.NEGATIVE_INFINITY;

  /** The largest excess in any window that ends with this call. */
  const insert = ({ fromUs, toUs }: Span): number => {
    if (!edges.some((edge) => edge.fromUs === fromUs)) {
      // Calls already counted that began later also lie inside windows from the new edge.
      const inside = edges.find((edge) => edge.fromUs > fromUs);
      const count = inside === undefined ? 0 : Math.round(inside.level - perUs * inside.fromUs);
      const at = inside === undefined ? edges.length : edges.indexOf(inside);
      edges.splice(at, 0, { fromUs, level: count + perUs * fromUs });
    }
    let most = Number.NEGATIVE_INFINITY;
    for (const edge of edges) {
      if (edge.fromUs > fromUs) break;
      edge.level += 1;
      most = Math.max(most, edge.level);
    }
    return most - perUs * toUs;
  };
  /** Of the edges before the horizon, keeps only the one with the highest level. */
  const merge = (nowUs: number): void => {
    let horizonUs = nowUs - LAG_US;
    for (const { fromUs } of undecided.items()) horizonUs = Math.min(horizonUs, fromUs);
    const later = edges.findIndex(({ fromUs }) => fromUs >= horizonUs);
    const settled = edges.splice(0, later < 0 ? edges.length : later);
    edges.unshift(...settled.sort((one, other) => other.level - one.level).slice(0, 1));
    mergeAt = Math.max(64, 2 * edges.length);
  };
  return {
    add: (span: Span): void => undecided.push(span.toUs, span),
    /** The limiter may have lost the bucket: windows across this moment prove nothing. */
    reset: (us: number): void => {
      edges = [];
      resetUs = us;
    },
    reach: (us: number): { id: string; over: number }[] => {
      const found: { id: string; over: number }[] = [];
      while (undecided.size > 0 && undecided.least <= us) {
        const span = undecided.pop() as Span;
        if (span.fromUs < resetUs) continue;
        const over = insert(span) - (burst + 1);
        if (over > 0) found.push({ id: span.id, over });
      }
      if (edges.length >= mergeAt) merge(us);
      return found;
    },
  };
};

/**
 * A limit that starts anew with each clock second admits twice as much around the turn of the second. A limit that each
 * replica keeps by itself admits as many times as much as there are replicas (items 214, 230). Other callers of the key use
 * up a part of its rate, so they explain no excess.
 */
export const rateWithinAnyWindow: Judge = (facts) => {
  const { rate_per_s: rate, burst } = facts.limits;
  if (rate === undefined || burst === undefined)
    return skipped("not-stated", "limits.rate_per_s and limits.burst in the target file");
  const bounds = new Map<string, ReturnType<typeof rateBound>>();
  const evidence = new Evidence();
  const limited = new Set<string>();
  let admitted = 0;
  let nameless = 0;
  const reach = (bucket: string, us: number): void => {
    for (const { id, over } of bounds.get(bucket)?.reach(us) ?? []) {
      const calls = `${Math.ceil(over)} calls more than burst ${burst} + ${rate}/s allow`;
      evidence.breach(id, `${bucket} got ${calls} in a window that ends with this call`);
    }
  };
  const seeCall = (call: CallLine): void => {
    if (!isAdmitted(call) && call.outcome !== RATE_LIMITED) return;
    const { bucket } = call;
    if (bucket === undefined) nameless += 1;
    else if (call.outcome === RATE_LIMITED) limited.add(bucket);
    if (bucket === undefined || call.outcome === RATE_LIMITED) return;
    const bound = known(bounds, bucket, () => rateBound(rate, burst));
    reach(bucket, call.sent_us);
    bound.add({ fromUs: earliestUs(call), toUs: decidedByUs(call), id: call.id });
    admitted += 1;
  };
  return {
    see(line) {
      // A broken limiter may lose buckets that it keeps in memory; on a foreign deployment the replicas may keep them.
      const mayLoseBuckets = line.type === "fault" && (line.link === "limiter" || !isReference(facts));
      const mayMoveBuckets = !isReference(facts) && changesReplicas(line);
      if (mayLoseBuckets || mayMoveBuckets) {
        for (const bound of bounds.values()) bound.reset(lineTimeUs(line));
      }
      if (line.type === "call" && !line.route.startsWith("keys.")) seeCall(line);
    },
    end() {
      for (const bucket of bounds.keys()) reach(bucket, Number.POSITIVE_INFINITY);
      if (evidence.count > 0) return failed("a key was admitted for more calls than its rate", evidence);
      if (admitted === 0 && nameless > 0)
        return skipped("not-stated", "the key that each call was counted by (bucket)");
      const pressed = [...limited].filter((bucket) => bounds.has(bucket)).length;
      if (pressed === 0) return unseen("no key was pressed to its limit");
      return passed(`${pressed} keys pressed to their limit got no more than it, ${admitted} calls in all`);
    },
  };
};
