/**
 * The rate in every window and over all replicas: a limit per clock second admits twice as much around its edge, one per replica
 * admits it once per replica (items 214, 230). Other callers only take from a key's rate.
 */
import { outcomeOf } from "../contract/refusals.ts";
import { type CallLine, lineTimeUs } from "../history/line.ts";
import { changesReplicas, isReference } from "./evidence/deployment.ts";
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
  },
};
