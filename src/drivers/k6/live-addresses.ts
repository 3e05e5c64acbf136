/**
 * Replaces k6's choice of an address. k6 takes one of a name's addresses at random, IPv4 before IPv6, and gives a call
 * up if that one does not answer; browsers and Node go on to the next. Without this, a name with one dead address would
 * look like an API that leaves calls unanswered.
 */
import { lookAtAddresses, placeOf } from "../../client/tls-look.ts";
import type { Target } from "../../target/target.ts";

/** `failed`: why it takes no connection, else `null`. */
type Tried = { address: string; family: number; failed: string | null };

/** The first address that answers, if k6 might take one that does not; else `null`. */
export const liveAddress = (all: readonly Tried[]) => {
  const family = all.some((one) => one.family === 4) ? 4 : 6;
  const dead = all.filter((one) => one.family === family && one.failed !== null);
  const live = all.find(({ failed }) => failed === null);
  return dead.length === 0 || live === undefined ? null : { address: live.address, dead };
};

/** k6's option `hosts`, with a warning for each name in it. A proxy resolves names by itself. */
export const liveAddresses = async ({ base_url, key_management_url, tile_url, transport }: Target) => {
  const hosts: Record<string, string> = {};
  const warnings: string[] = [];
  const urls = typeof transport?.proxy === "string" ? [] : [base_url, key_management_url, tile_url];
  const places = urls.flatMap((url) => (url === undefined ? [] : [placeOf(url)]));
  for (const place of new Map(places.map((one) => [one.host, one])).values()) {
    const found = liveAddress(await lookAtAddresses(place));
    if (found === null) continue;
    hosts[place.host] = found.address;
    const dead = found.dead.map(({ address, failed }) => `${address} (${failed})`).join(", ");
    warnings.push(`${place.host} has addresses that take no connection: ${dead}; every call goes to ${found.address}`);
  }
  return { hosts, warnings };
};
