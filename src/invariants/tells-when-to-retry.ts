/**
 * A missing or too short Retry-After causes a retry storm (specification 7.2; items 208, 214, 217, 218). Too short: a client
 * alone on its key waited and was refused again; judged only where nobody else calls. How a foreign deployment counts a rate is
 * unknown (item 230), so there the client must be quite alone. A should, because the header is specified for few answers.
 */
import { outcomeOf, type RefusalName } from "../contract/refusals.ts";
import { readRetryAfter } from "../contract/retry-after.ts";
import type { CallLine } from "../history/line.ts";
import { isReference } from "./evidence/deployment.ts";
import { earliestUs, isDefinite, latestUs, Settling } from "./evidence/moments.ts";
import { Evidence, failed, type Invariant, passed, unseen } from "./invariant.ts";

const RATE_LIMITED = outcomeOf("rate_limited");
const TILE_RESTRICTED = outcomeOf("tile_access_restricted");
const ours: readonly RefusalName[] = [
  "b2b_overloaded",
  "org_overloaded",
  "limiter_unavailable",
  "key_service_unavailable",
];
const OURS_AS_WELL = new Set(ours.map(outcomeOf));

/** Whole seconds; `null` for a date or none. */
const secondsOf = (header: string | undefined): number | null => {
  const stated = header === undefined ? null : readRetryAfter(header, 0);
  return stated !== null && "seconds" in stated ? stated.seconds : null;
};

const headerFault = ({ outcome, retry_after: header }: CallLine, strict: boolean): string | null => {
  // The reference time does not matter.
  if (header !== undefined && readRetryAfter(header, 0) === null) {
    return `${outcome} with Retry-After "${header}", which is neither seconds nor a date`;
  }
  if (outcome === TILE_RESTRICTED) {
    return secondsOf(header) === 3600 ? null : `${outcome} with Retry-After ${header ?? "missing"}, not 3600`;
  }
  if (outcome !== RATE_LIMITED && !(strict && OURS_AS_WELL.has(outcome))) return null;
  if (header === undefined) return `${outcome} without Retry-After`;
  return secondsOf(header) === 0 ? `${outcome} with Retry-After 0` : null;
};

/** One bucket for all calls, if it is unknown how a rate is counted. */
const EVERYBODY = "*";

/** A call after `fromUs` that is alone on its key must be admitted. */
type Promised = { fromUs: number; seconds: number };

/** Admitted, or of unknown fate. */
const mayTakeToken = (call: CallLine): boolean =>
  !isDefinite(call) || /^[25]/.test(call.outcome) || call.outcome === outcomeOf("limiter_unavailable");

export const tellsWhenToRetry: Invariant = {
  id: "tells-when-to-retry",
  level: "should",
  folded: true,
  spec: [208, 214, 217, 218, 226],
  statement: "rate_limited and tile_access_restricted say when to retry, and a client that obeys is admitted",
  judge(facts) {
    const strict = isReference(facts);
    const evidence = new Evidence();
    let judged = 0;
    const promises = new Map<string, Promised>();
    /** Until when known calls may take a token. */
    const busyUntilUs = new Map<string, number>();
    const obeyed = new Map<CallLine, string>();
    const suspects = new Settling((call) => {
      const got = obeyed.get(call);
      obeyed.delete(call);
      if (got !== undefined) evidence.breach(call.id, got);
    });
    /** Drops a key's promise, because another call may have taken the token. */
    const forget = (bucket: string): void => {
      promises.delete(bucket);
      for (const call of obeyed.keys()) if (!strict || call.bucket === bucket) obeyed.delete(call);
    };
    const seeOnKey = (call: CallLine, bucket: string): void => {
      const promised = promises.get(bucket);
      if (call.outcome !== RATE_LIMITED) {
        if (!mayTakeToken(call)) return;
        forget(bucket);
        const untilUs = isDefinite(call) ? latestUs(call) : Number.POSITIVE_INFINITY;
        busyUntilUs.set(bucket, Math.max(busyUntilUs.get(bucket) ?? 0, untilUs));
        return;
      }
      if (promised !== undefined && earliestUs(call) >= promised.fromUs) {
        obeyed.set(
          call,
          `refused again although it came ${promised.seconds} s later, as Retry-After asked, alone on its key`,
        );
        suspects.add(call);
      }
      const seconds = secondsOf(call.retry_after);
      const alone = (busyUntilUs.get(bucket) ?? Number.NEGATIVE_INFINITY) < earliestUs(call);
      if (seconds !== null && alone) promises.set(bucket, { fromUs: latestUs(call) + seconds * 1_000_000, seconds });
    };
    return {
      see(line, alike = 1) {
        suspects.reach(line);
        if (line.type === "fault") for (const bucket of promises.keys()) forget(bucket);
        if (line.type !== "call") return;
        if (facts.exclusive && (line.bucket !== undefined || !strict)) {
          seeOnKey(line, strict ? (line.bucket as string) : EVERYBODY);
        }
        if (!isDefinite(line)) return;
        const fault = headerFault(line, strict);
        if (fault !== null) evidence.breach(line.id, fault);
        else if (line.outcome === RATE_LIMITED || line.outcome === TILE_RESTRICTED || line.retry_after !== undefined)
          judged += alike;
      },
      end() {
        suspects.finish();
        if (evidence.count > 0) return failed("a refusal did not say when to retry, or said it wrongly", evidence);
        if (judged === 0) return unseen("no refusal came that has to say when to retry");
        return passed(`${judged} refusals said when to retry`);
      },
    };
  },
};
