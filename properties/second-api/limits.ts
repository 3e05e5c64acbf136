/**
 * Limits of the second deployment: calls in flight of one organization and of all, and the rate of a key. Defects of
 * counting slots, of shedding or of its answers belong here.
 */
import { capsOf, rateOf } from "./offer.ts";
import { HANGS_UP, type Reply } from "./replies.ts";
import type { ApiState, Key } from "./state.ts";

export const isRateLimited = (api: ApiState, key: Key): boolean => {
  if (api.is("no-rate-limit")) return false;
  const { perS, burst } = rateOf(api);
  const nowMs = performance.now();
  const bucket = api.buckets.get(key.id) ?? { tokens: burst, atMs: nowMs };
  bucket.tokens = Math.min(burst, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * perS);
  bucket.atMs = nowMs;
  api.buckets.set(key.id, bucket);
  if (bucket.tokens < 1) {
    if (api.has("limits-for-ever")) bucket.tokens = Number.NEGATIVE_INFINITY;
    return true;
  }
  bucket.tokens -= 1;
  return false;
};

/** Formats a date as asctime, the second obsolete date format of HTTP. */
const asctime = (ms: number): string => {
  const [day, date, month, year, time] = new Date(ms).toUTCString().replace(",", "").split(" ") as string[];
  return `${day} ${month} ${date?.replace(/^0/, " ")} ${time} ${year}`;
};

export const rateReply = ({ is, has, detail, flat }: ApiState): Reply => {
  const headers: Record<string, string> = has("hides-retry-after") ? {} : { "Retry-After": "1" };
  if (has("limits-with-503")) return { status: 503, body: {}, headers };
  if (has("limits-as-unavailable")) return detail(429, "limiter_unavailable", headers);
  if (is("retry-after-date")) headers["Retry-After"] = new Date(Date.now() + 1000).toUTCString();
  if (is("retry-after-asctime")) headers["Retry-After"] = asctime(Date.now() + 1000);
  if (has("tells-a-time-since-1970")) headers["Retry-After"] = `${Math.ceil(Date.now() / 1000) + 1}`;
  if (has("tells-half-seconds")) headers["Retry-After"] = "1.5";
  if (has("tells-a-date-that-has-passed")) headers["Retry-After"] = new Date(0).toUTCString();
  return is("flat-limiter") ? { ...flat("rate_limited"), headers } : detail(429, "rate_limited", headers);
};

export const inFlightOf = ({ inFlight }: ApiState, org: string): number => inFlight.get(org) ?? 0;

/** The name under which a key's calls in flight are counted. */
export const countedAs = ({ has }: ApiState, key: Key): string => (has("caps-each-key") ? key.id : key.org);

/** `null`: there is a slot. */
export const organizationShed = (api: ApiState, org: string): Reply | null => {
  const { has, detail, flat } = api;
  const others = inFlightOf(api, org);
  const cap = capsOf(api).own;
  const part = has("sheds-at-a-quarter") ? 4 : has("sheds-at-half") ? 2 : 1;
  if (api.shedForEver) return flat("org_overloaded", {}, { "Retry-After": "1" });
  if (has("drops-over-the-cap") && others >= cap) return HANGS_UP;
  if (others < (has("forgets-the-cap") ? 1_000 : cap / part)) return null;
  api.shedForEver = has("never-recovers");
  if (has("sheds-with-503")) return { status: 503, body: { detail: "overloaded" } };
  if (has("keeps-three-slots-of-the-shed")) api.lost = Math.min(3, api.lost + 1);
  api.sheds += 1;
  const isSwapped = has("swaps-the-two-overloads") || (has("swaps-every-third-overload") && api.sheds % 3 === 0);
  if (isSwapped) return flat("b2b_overloaded", {}, { "Retry-After": "1" });
  if (has("sheds-without-a-subcode")) return { status: 429, body: {} };
  if (has("sheds-as-rate-limited")) return detail(429, "rate_limited");
  if (has("sheds-with-detail")) return detail(429, "org_overloaded");
  return flat("org_overloaded", {}, { "Retry-After": "1" });
};

/** `null`: there is a slot. */
export const globalShed = (api: ApiState): Reply | null => {
  const { has, is, flat, total, lost } = api;
  if (total + lost < capsOf(api).all / (has("sheds-everybody-early") ? 4 : 1)) return null;
  const headers: Record<string, string> = is("asks-for-a-day") ? { "Retry-After": "86400" } : {};
  api.sheds += 1;
  const blames = has("blames-an-organization") || (has("blames-an-organization-mostly") && api.sheds % 3 > 0);
  return flat(blames ? "org_overloaded" : "b2b_overloaded", {}, headers);
};

/** Takes a slot; the returned function gives it back. */
export const takeSlot = (api: ApiState, org: string): (() => void) => {
  api.inFlight.set(org, inFlightOf(api, org) + 1);
  api.total += 1;
  return () => {
    api.inFlight.set(org, (api.inFlight.get(org) ?? 1) - 1);
    api.total -= 1;
  };
};

/** What a defect or a variant does after a 401: one loses a slot each time, one is full for three seconds, once. */
export const afterReply = (api: ApiState, status: number): void => {
  if (status === 401 && api.has("keeps-a-slot-for-nobody")) api.lost += 1;
  // Other callers fill the deployment for three seconds.
  if (status === 401 && api.is("is-full-for-a-while") && api.lost === 0) {
    api.lost = capsOf(api).all;
    setTimeout(() => {
      api.lost = 0.5;
    }, 3_000);
  }
};
