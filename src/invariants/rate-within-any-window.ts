/**
 * A limit of 50 a second that counts by the clock's second lets 100 through around its edge, and one that each replica
 * counts for itself lets through as many times the limit as there are replicas (items 214, 230). So every window of time is
 * looked at, and all replicas together. Other callers of the same key only take from it, so what we were admitted stays under
 * the bound beside them.
 */
import { outcomeOf } from "../contract/refusals.ts";
import { type CallLine, lineTimeUs } from "../history/line.ts";
import { changesReplicas } from "./evidence/capacity-changes.ts";
import { isReference } from "./evidence/is-reference.ts";
import { decidedByUs, earliestUs, isAdmitted } from "./evidence/moments.ts";
import { RateBound } from "./evidence/rate-bound.ts";
import { Evidence, failed, type Invariant, passed, skipped, unseen } from "./invariant.ts";

const RATE_LIMITED = outcomeOf("rate_limited");

export const rateWithinAnyWindow: Invariant = {
  id: "rate-within-any-window",
  level: "must",
  spec: [214, 230],
  statement: "in any window of w seconds a key gets at most burst + rate x w calls admitted",
  judge(facts) {
    const { rate_per_s: rate, burst } = facts.limits;
    if (rate === undefined || burst === undefined) {
      return skipped("limits.rate_per_s and limits.burst");
    }
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
      if (bucket === undefined) {
        nameless += 1;
        return;
      }
      if (call.outcome === RATE_LIMITED) {
        limited.add(bucket);
        return;
      }
      const bound = bounds.get(bucket) ?? new RateBound(rate, burst);
      bounds.set(bucket, bound);
      reach(bucket, bound, call.sent_us);
      bound.add({ fromUs: earliestUs(call), toUs: decidedByUs(call), id: call.id });
      admitted += 1;
    };
    return {
      see(line) {
        // A limiter that keeps buckets in memory may have lost them. Where somebody else's keeps them
        // is not known: perhaps in the replicas.
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
  },
};
