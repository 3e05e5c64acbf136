/**
 * How the second deployment limits: calls in flight of one organization and of all, and the rate of a key. A defect of
 * counting slots, of shedding or of what is said then belongs here.
 */
import { capsOf, rateOf } from "./offer.ts";
import { HANGS_UP, type Reply } from "./replies.ts";
import type { Key, World } from "./world.ts";

export const isRateLimited = (world: World, key: Key): boolean => {
  if (world.is("no-rate-limit")) return false;
  const { perS, burst } = rateOf(world);
  const nowMs = performance.now();
  const bucket = world.buckets.get(key.id) ?? { tokens: burst, atMs: nowMs };
  bucket.tokens = Math.min(burst, bucket.tokens + ((nowMs - bucket.atMs) / 1000) * perS);
  bucket.atMs = nowMs;
  world.buckets.set(key.id, bucket);
  if (bucket.tokens < 1) {
    if (world.has("limits-for-ever")) bucket.tokens = Number.NEGATIVE_INFINITY;
    return true;
  }
  bucket.tokens -= 1;
  return false;
};

export const rateReply = ({ is, has, detail, flat }: World): Reply => {
  const headers: Record<string, string> = has("hides-retry-after") ? {} : { "Retry-After": "1" };
  if (has("limits-with-503")) return { status: 503, body: {}, headers };
  if (has("limits-as-unavailable")) return detail(429, "limiter_unavailable", headers);
  if (is("retry-after-date")) headers["Retry-After"] = new Date(Date.now() + 1000).toUTCString();
  if (has("tells-a-date-that-has-passed")) headers["Retry-After"] = new Date(0).toUTCString();
  return is("flat-limiter") ? { ...flat("rate_limited"), headers } : detail(429, "rate_limited", headers);
};

export const inFlightOf = ({ inFlight }: World, org: string): number => inFlight.get(org) ?? 0;

/** Whose calls are counted together. */
export const countedAs = ({ has }: World, key: Key): string => (has("caps-each-key") ? key.id : key.org);

/** `null`: there is a slot. */
export const organizationShed = (world: World, org: string): Reply | null => {
  const { has, detail, flat } = world;
  const others = inFlightOf(world, org);
  const cap = capsOf(world).own;
  const part = has("sheds-at-a-quarter") ? 4 : has("sheds-at-half") ? 2 : 1;
  if (world.shedForEver) return flat("org_overloaded", {}, { "Retry-After": "1" });
  if (has("drops-over-the-cap") && others >= cap) return HANGS_UP;
  if (others < (has("forgets-the-cap") ? 1_000 : cap / part)) return null;
  world.shedForEver = has("never-recovers");
  if (has("sheds-with-503")) return { status: 503, body: { detail: "overloaded" } };
  if (has("swaps-the-two-overloads")) return flat("b2b_overloaded", {}, { "Retry-After": "1" });
  if (has("sheds-with-detail")) return detail(429, "org_overloaded");
  return flat("org_overloaded", {}, { "Retry-After": "1" });
};

/** `null`: there is a slot. */
export const globalShed = (world: World): Reply | null => {
  const { has, flat, total, lost } = world;
  if (total + lost < capsOf(world).all / (has("sheds-everybody-early") ? 4 : 1)) return null;
  return flat(has("blames-an-organization") ? "org_overloaded" : "b2b_overloaded");
};

/** Holds a slot until what is returned is called. */
export const takeSlot = (world: World, org: string): (() => void) => {
  world.inFlight.set(org, inFlightOf(world, org) + 1);
  world.total += 1;
  return () => {
    world.inFlight.set(org, (world.inFlight.get(org) ?? 1) - 1);
    world.total -= 1;
  };
};

/** What an answer to nobody does to the slots. */
export const afterReply = (world: World, status: number): void => {
  if (status === 401 && world.has("keeps-a-slot-for-nobody")) world.lost += 1;
  // Others come, fill it up for a while and go.
  if (status === 401 && world.is("is-full-for-a-while") && world.lost === 0) {
    world.lost = capsOf(world).all;
    setTimeout(() => {
      world.lost = 0.5;
    }, 3_000);
  }
};
