/**
 * How the second deployment limits: calls in flight of one organization and of all, and the rate of a key. A defect of
 * counting slots, of shedding or of what is said then belongs here.
 */
import { GLOBAL_CAP, ORG_CAP, rateOf } from "./offer.ts";
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
  if (bucket.tokens < 1) return true;
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

/** `null`: there is a slot. */
export const organizationShed = (world: World, org: string): Reply | null => {
  const { has, detail, flat } = world;
  const others = inFlightOf(world, org);
  if (world.shedForEver) return flat("org_overloaded", {}, { "Retry-After": "1" });
  if (has("drops-over-the-cap") && others >= ORG_CAP) return HANGS_UP;
  if (others < (has("forgets-the-cap") ? 1_000 : has("sheds-at-a-quarter") ? ORG_CAP / 4 : ORG_CAP)) return null;
  world.shedForEver = has("never-recovers");
  if (has("sheds-with-503")) return { status: 503, body: { detail: "overloaded" } };
  if (has("swaps-the-two-overloads")) return flat("b2b_overloaded", {}, { "Retry-After": "1" });
  if (has("sheds-with-detail")) return detail(429, "org_overloaded");
  return flat("org_overloaded", {}, { "Retry-After": "1" });
};

/** `null`: there is a slot. */
export const globalShed = ({ has, flat, total, lost }: World): Reply | null =>
  total + lost >= GLOBAL_CAP ? flat(has("blames-an-organization") ? "org_overloaded" : "b2b_overloaded") : null;

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
    world.lost = GLOBAL_CAP;
    setTimeout(() => {
      world.lost = 0.5;
    }, 3_000);
  }
};
