/** Judges refusals: their envelope, their Retry-After, and the time that they take. */
import { outcomeOf, RATE_LIMITED, REFUSAL_BY_OUTCOME } from "../contract/refusals.ts";
import { readRetryAfter } from "../contract/retry-after.ts";
import type { CallLine } from "../history/line.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { isOthersRefusal, refusesTheQuery } from "./evidence/legal-answers.ts";
import { earliestUs, isAdmitted, isDefinite, isReference, isShed, latestUs } from "./evidence/moments.ts";
import { Evidence, failed, failedBy, inconclusive, type Judge, passed, unseen } from "./invariant.ts";

/** A13: the specification lists them neither as flat nor as hard stops. */
const EITHER_FORM = new Set(["429 limiter_unavailable", RATE_LIMITED]);

const quotaFault = ({ quota }: CallLine): string | null => {
  if (quota === undefined) return "the quota fields are missing";
  if (quota.meter !== "map_loads") return `meter is ${JSON.stringify(quota.meter)}, not "map_loads"`;
  const name = (["limit", "used"] as const).find((one) => !Number.isInteger(quota[one]));
  return name === undefined ? null : `${name} is ${JSON.stringify(quota[name])}, not an integer`;
};

const formFault = (call: CallLine, ours: boolean): string | null => {
  const { outcome, envelope } = call;
  const refusal = REFUSAL_BY_OUTCOME.get(outcome);
  if (refusal === undefined) {
    // Servers in front of the API send JSON of their own, or sentences; a 401 carries no text at all (item 190).
    const isSentence = !outcome.startsWith("401") && !/^\d{3}( \S+)?$/.test(outcome);
    const isOthers =
      /^(404|405|408|413|431|5(?!03)\d\d)\b/.test(outcome) ||
      isOthersRefusal(call) ||
      refusesTheQuery(call) ||
      isSentence;
    return isOthers && !ours ? null : `"${outcome}" is no refusal of the specification`;
  }
  if (envelope === undefined) return null;
  const fault = outcome === "429 map_load_quota_exceeded" ? quotaFault(call) : null;
  if (fault !== null) return fault;
  // Item 189: any body without `detail` is right.
  if (refusal.envelope === "none") {
    // Items 127, 163, 164: a 401 of key management or of an ended session differs from a key's.
    if (!ours && refusal.status === 401 && isOthersRefusal(call)) return null;
    return envelope === "detail" || envelope === "both" ? `${outcome} came with a detail` : null;
  }
  if (envelope === refusal.envelope) return null;
  if (!ours && envelope === "flat" && EITHER_FORM.has(outcome)) return null;
  return `${outcome} came in the envelope "${envelope}", not "${refusal.envelope}"`;
};

/** Clients find the subcode by the envelope, and must not decide by a bare status (specification 7.1; item 188). */
export const envelopeFitsSubcode: Judge = (facts) => {
  const ours = isReference(facts);
  const evidence = new Evidence();
  let judged = 0;
  return {
    see(line) {
      if (line.type !== "call" || !isDefinite(line) || /^[23]/.test(line.outcome)) return;
      const fault = formFault(line, ours);
      if (fault !== null) evidence.breach(line.id, fault);
      else if (line.envelope !== undefined) judged += 1;
    },
    end() {
      if (evidence.count > 0) return failed("a refusal has the wrong envelope", evidence);
      if (judged === 0) return unseen("no refusal came whose body was kept");
      return passed(`${judged} refusals had the envelope that belongs to their subcode`);
    },
  };
};

const TILE_RESTRICTED = outcomeOf("tile_access_restricted");
const LIMITER_UNAVAILABLE = outcomeOf("limiter_unavailable");
const OVERLOADED = [outcomeOf("b2b_overloaded"), outcomeOf("org_overloaded")];
const OURS_AS_WELL = [...OVERLOADED, LIMITER_UNAVAILABLE, outcomeOf("key_service_unavailable")];

/** Whole seconds; `null` for a date or none. */
const secondsOf = (header: string | undefined): number | null => {
  const stated = header === undefined ? null : readRetryAfter(header, 0);
  return stated !== null && "seconds" in stated ? stated.seconds : null;
};

const headerFault = ({ outcome, retry_after: header }: CallLine, strict: boolean): string | null => {
  if (header !== undefined && readRetryAfter(header, 0) === null) {
    return `${outcome} with Retry-After "${header}", which is neither seconds nor a date`;
  }
  if (outcome === TILE_RESTRICTED) {
    return secondsOf(header) === 3600 ? null : `${outcome} with Retry-After ${header ?? "missing"}, not 3600`;
  }
  if (outcome !== RATE_LIMITED && !(strict && OURS_AS_WELL.includes(outcome))) return null;
  if (header === undefined) return `${outcome} without Retry-After`;
  return secondsOf(header) === 0 ? `${outcome} with Retry-After 0` : null;
};

/** The bucket of all calls, if it is unknown how a rate is counted. */
const EVERYBODY = "*";

const mayTakeToken = (call: CallLine): boolean =>
  !isDefinite(call) || /^[25]/.test(call.outcome) || call.outcome === LIMITER_UNAVAILABLE;

/**
 * A missing or too short Retry-After causes a retry storm (specification 7.2; items 208, 214, 217, 218). It is too short if
 * a client alone on its key waited and was refused again, judged only if nobody else calls. How a foreign deployment counts a
 * rate is unknown (item 230), so there no other call of ours may interfere. A should: few answers must have the header.
 */
export const tellsWhenToRetry: Judge = (facts, settling) => {
  const strict = isReference(facts);
  const evidence = new Evidence();
  let judged = 0;
  /** By key: what a refusal promised, and until when the calls seen so far may take a token. */
  const promises = new Map<string, { fromUs: number; seconds: number }>();
  const busyUntilUs = new Map<string, number>();
  const obeyed = new Map<CallLine, string>();
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
      const after = `${promised.seconds} s later, as Retry-After asked, alone on its key`;
      obeyed.set(call, `refused again although it came ${after}`);
      settling.add(call);
    }
    const seconds = secondsOf(call.retry_after);
    const alone = (busyUntilUs.get(bucket) ?? Number.NEGATIVE_INFINITY) < earliestUs(call);
    if (seconds !== null && alone) promises.set(bucket, { fromUs: latestUs(call) + seconds * 1_000_000, seconds });
  };
  return {
    see(line, alike = 1) {
      if (line.type === "fault") for (const bucket of promises.keys()) forget(bucket);
      if (line.type !== "call") return;
      if (facts.exclusive && (line.bucket !== undefined || !strict)) {
        seeOnKey(line, strict ? (line.bucket as string) : EVERYBODY);
      }
      if (!isDefinite(line)) return;
      const fault = headerFault(line, strict);
      const hasToSay = line.outcome === RATE_LIMITED || line.outcome === TILE_RESTRICTED;
      if (fault !== null) evidence.breach(line.id, fault);
      else if (hasToSay || line.retry_after !== undefined) judged += alike;
    },
    settled(call) {
      const got = obeyed.get(call);
      obeyed.delete(call);
      if (got !== undefined) evidence.breach(call.id, got);
    },
    end() {
      if (evidence.count > 0) return failed("a refusal did not say when to retry, or said it wrongly", evidence);
      if (judged === 0) return unseen("no refusal came that has to say when to retry");
      return passed(`${judged} refusals said when to retry`);
    },
  };
};

const ENOUGH_SHEDS = 20;
const SHARE = 0.25;
/** Always allowed, because a busy machine alone can take this long. */
export const CHEAP_MS = 25;
const FLOOR_US = CHEAP_MS * 1000;

const ms = (us: number): string => `${Math.round(us / 100) / 10} ms`;

/**
 * Compares the time of sheds, less the round trip (the quickest tenth of other answers), with the service time (item 220).
 * It fails only if even the quicker quarter is slow; a delay that varies widely is not slow refusal. A should: machines differ.
 */
export const refusalsAreCheap: Judge = ({ limits }) => {
  const [sheds, served, firstBytes] = [new Histogram(), new Histogram(), new Histogram()];
  const at = (times: Histogram, share: number): number => times.quantile(share) ?? 0;
  const slow = new Evidence();
  return {
    see(line) {
      if (line.type !== "call" || !isDefinite(line)) return;
      if (isShed(line)) {
        const us = line.done_us - line.sent_us;
        sheds.record(us);
        if (us > FLOOR_US) slow.breach(line.id, "");
        return;
      }
      firstBytes.record((line.first_us ?? line.done_us) - line.sent_us);
      if (isAdmitted(line) && line.aborted !== true) served.record(line.done_us - line.sent_us);
    },
    end() {
      const serviceUs = limits.service_ms === undefined ? at(served, 0.5) : limits.service_ms * 1000;
      if (sheds.n < ENOUGH_SHEDS) return unseen(`${sheds.n} calls were shed; 20 are needed`);
      if (serviceUs === 0) return unseen("no served call to compare with");
      const roundTripUs = at(firstBytes, 0.1);
      const costUs = Math.max(0, at(sheds, 0.25) - roundTripUs);
      const allowedUs = Math.max(FLOOR_US, SHARE * serviceUs);
      const seen = `${sheds.n} shed calls took ${ms(costUs)}`;
      const allowed = `${ms(allowedUs)} are allowed`;
      const unevenUs = at(sheds, 0.75) - at(sheds, 0.25);
      const uneven = `half of all sheds differ by ${ms(unevenUs)}: too uneven to judge`;
      if (unevenUs > allowedUs / 2) return inconclusive("ambiguous", uneven);
      if (costUs <= allowedUs) return passed(`a quarter of ${seen} or less beyond the round trip; ${allowed}`);
      const got = slow.count > 0 ? `three quarters of ${seen} or more beyond the round trip` : "";
      return { ...failedBy(`refusals were slow: ${allowed}`, slow), got };
    },
  };
};
