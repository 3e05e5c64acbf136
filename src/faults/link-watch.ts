/**
 * Looks at a proxied link whatever is spoken on it: once while it is whole, then again while a fault is in. Redis and HTTP are
 * asked for something that they answer in full; of anything else the reaction to a question that it does not understand is
 * compared. A look that is the same before the fault proves nothing.
 */
import { httpProbe, type LinkProbe, type LinkSeen, observeLink, redisProbe } from "../tools/link-probe.ts";
import type { LinkFault } from "./link-faults.ts";

type LinkWatch = {
  speaks: "http" | "redis" | "something else";
  /** False where the link looks like that already when it is whole. */
  canShow(fault: LinkFault): boolean;
  look(): Promise<LinkSeen>;
  /** Whether the link looks otherwise than whole, whatever was done to it. */
  isChanged(now: LinkSeen): boolean;
};

/** How much longer than its budget a caller of the link would wait: silence beyond it is the fault's. */
export const PROBE_OVER_BUDGET_MS = 500;

/** A busy machine alone does not make a look so much slower. */
const SLOWER_TIMES = 5;
const SLOWER_MS = 200;

/** Enough for an answer that a cut after some bytes hits, and that comes in several crumbs. */
const PINGS = 30;

/** `null`: nobody listens there that can be reached from here. `link` is `host:port` of the proxy's listener. */
export const watchLink = async (link: string, giveUpMs: number): Promise<LinkWatch | null> => {
  const watchWith = (speaks: LinkWatch["speaks"], probe: LinkProbe, before: LinkSeen): LinkWatch => ({
    speaks,
    canShow: (fault) => !fault.shows(before),
    look: () => observeLink(probe),
    isChanged: (now) => now.ended !== before.ended || now.doneMs > SLOWER_TIMES * before.doneMs + SLOWER_MS,
  });
  // Redis first: it takes an HTTP request for an attack, while to HTTP a ping is a bad request like others.
  const pings = redisProbe(link, giveUpMs, PINGS);
  const pinged = await observeLink(pings);
  if (!pinged.connected) return null;
  if (pinged.ended === "complete") return watchWith("redis", pings, pinged);
  const get = httpProbe(link, "/health", giveUpMs);
  const got = await observeLink(get);
  return watchWith(got.ended === "complete" ? "http" : "something else", get, got);
};
