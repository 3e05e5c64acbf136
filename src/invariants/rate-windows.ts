/** Calls admitted beyond a key's rate, over every window of time. */
import { outcomeOf } from "../contract/refusals.ts";
import { Heap } from "../history/heap.ts";
import { type CallLine, lineTimeUs } from "../history/line.ts";
import { changesReplicas, decidedByUs, earliestUs, isAdmitted } from "./evidence/moments.ts";
import { Evidence, failed, isReference, type Judge, passed, skipped, unseen } from "./invariant.ts";

/** Calls may arrive this much out of order; younger edges are kept apart. */
const LAG_US = 2_000_000;

type Edge = { fromUs: number; level: number };
type Span = { fromUs: number; toUs: number; id: string };

/**
 * By how much a key's admitted calls exceed a rate limit, over every window of time at once:
 *
 *     calls admitted wholly inside [a, b]  <=  burst + rate x (b - a) + 1
 *
 * A call counts as inside only if its whole span of decision is (from its sending to its first byte, widened by the
 * clock's error). For each left edge `a` one number is kept, count + rate x a. Edges before all undecided calls grow
 * alike, so only the best of them is kept.
 */
class RateBound {
  readonly #perUs: number;
  readonly #allowed: number;
  readonly #undecided = new Heap<Span>();
  #edges: Edge[] = [];
  #mergeAt = 64;
  #resetUs = Number.NEGATIVE_INFINITY;

  constructor(ratePerS: number, burst: number) {
    this.#perUs = ratePerS / 1_000_000;
    this.#allowed = burst + 1;
  }

  add(span: Span): void {
    this.#undecided.push(span.toUs, span);
  }

  /** The limiter may have lost the bucket: windows across this moment prove nothing. */
  reset(us: number): void {
    this.#edges = [];
    this.#resetUs = us;
  }

  /** Calls over the limit by then, and by how much. */
  reach(us: number): { id: string; over: number }[] {
    const found: { id: string; over: number }[] = [];
    while (this.#undecided.size > 0 && this.#undecided.least <= us) {
      const span = this.#undecided.pop() as Span;
      if (span.fromUs < this.#resetUs) continue;
      const over = this.#insert(span) - this.#allowed;
      if (over > 0) found.push({ id: span.id, over });
    }
    if (this.#edges.length >= this.#mergeAt) this.#merge(us);
    return found;
  }

  /** The largest excess in any window that ends with this call. */
  #insert({ fromUs, toUs }: Span): number {
    const edges = this.#edges;
    if (!edges.some((edge) => edge.fromUs === fromUs)) {
      // Counted calls that began later belong to the new edge.
      const inside = edges.find((edge) => edge.fromUs > fromUs);
      const count = inside === undefined ? 0 : Math.round(inside.level - this.#perUs * inside.fromUs);
      const at = inside === undefined ? edges.length : edges.indexOf(inside);
      edges.splice(at, 0, { fromUs, level: count + this.#perUs * fromUs });
    }
    let most = Number.NEGATIVE_INFINITY;
    for (const edge of edges) {
      if (edge.fromUs > fromUs) break;
      edge.level += 1;
      most = Math.max(most, edge.level);
    }
    return most - this.#perUs * toUs;
  }

  /** The best edge before the horizon stands for all earlier ones. */
  #merge(nowUs: number): void {
    let horizonUs = nowUs - LAG_US;
    for (const { fromUs } of this.#undecided.items()) horizonUs = Math.min(horizonUs, fromUs);
    let best: Edge | undefined;
    let settled = 0;
    for (const edge of this.#edges) {
      if (edge.fromUs >= horizonUs) break;
      if (best === undefined || edge.level > best.level) best = edge;
      settled += 1;
    }
    if (best !== undefined && settled > 1) this.#edges.splice(0, settled, best);
    this.#mergeAt = Math.max(64, 2 * this.#edges.length);
  }
}

const RATE_LIMITED = outcomeOf("rate_limited");

/**
 * A limit per clock second admits twice as much around its edge, one per replica admits it once per replica (items 214, 230).
 * Other callers only take from a key's rate.
 */
export const rateWithinAnyWindow: Judge = (facts) => {
  const { rate_per_s: rate, burst } = facts.limits;
  if (rate === undefined || burst === undefined) return skipped("limits.rate_per_s and limits.burst");
  const bounds = new Map<string, RateBound>();
  const evidence = new Evidence();
  const limited = new Set<string>();
  let admitted = 0;
  let nameless = 0;
  const reach = (bucket: string, bound: RateBound, us: number): void => {
    for (const { id, over } of bound.reach(us)) {
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
    const bound = bounds.get(bucket) ?? new RateBound(rate, burst);
    bounds.set(bucket, bound);
    reach(bucket, bound, call.sent_us);
    bound.add({ fromUs: earliestUs(call), toUs: decidedByUs(call), id: call.id });
    admitted += 1;
  };
  return {
    see(line) {
      // A limiter may lose buckets in memory; foreign replicas may keep them.
      const mayLoseBuckets = line.type === "fault" && (line.link === "limiter" || !isReference(facts));
      const mayMoveBuckets = !isReference(facts) && changesReplicas(line);
      if (mayLoseBuckets || mayMoveBuckets) {
        for (const bound of bounds.values()) bound.reset(lineTimeUs(line));
      }
      if (line.type === "call" && !line.route.startsWith("keys.")) seeCall(line);
    },
    end() {
      for (const [bucket, bound] of bounds) reach(bucket, bound, Number.POSITIVE_INFINITY);
      if (evidence.count > 0) return failed("a key was admitted for more calls than its rate", evidence);
      if (admitted === 0 && nameless > 0) return skipped("the key that each call was counted by (bucket)");
      const pressed = [...limited].filter((bucket) => bounds.has(bucket)).length;
      if (pressed === 0) return unseen("no key was pressed to its limit");
      return passed(`${pressed} keys pressed to their limit got no more than it, ${admitted} calls in all`);
    },
  };
};
