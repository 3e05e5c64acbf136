/** Caches key records for the revocation budget, from the sending of the lookup on (item 142); no errors, no `null`. */
import { hash } from "node:crypto";
import type { Ask, KeySnapshot } from "../../core/call.ts";
import type { KeyLookup } from "../ports.ts";

export type KeyAsk = Extract<Ask, { ask: "key" | "key-by-id" }>;

const KEPT_MAX = 20_000;

/** A secret begins with `svc_`, so it is never taken for an id. */
const nameOf = (ask: KeyAsk): string => (ask.ask === "key" ? ask.secret : `id:${ask.id}`);

export const createKeyCache = (
  keys: KeyLookup,
  /** `maxAgeMs`: the revocation budget, which is the greatest age of a record that decides a call. */
  policy: { maxAgeMs: number; singleFlight: boolean },
  budgetMs: number,
  steadyMs: () => number = () => performance.now(),
) => {
  // Oldest first, because an entry is put at the end whenever it is written.
  const kept = new Map<string, { snapshot: KeySnapshot; sentAtMs: number }>();
  const flights = new Map<string, Promise<KeySnapshot | null>>();
  let changes = 0;

  const keep = (name: string, snapshot: KeySnapshot, sentAtMs: number): void => {
    const known = kept.get(name);
    if (known !== undefined && known.sentAtMs > sentAtMs) return;
    kept.delete(name);
    kept.set(name, { snapshot, sentAtMs });
    for (const [oldest, entry] of kept) {
      if (kept.size <= KEPT_MAX && steadyMs() - entry.sentAtMs <= policy.maxAgeMs) return;
      kept.delete(oldest);
    }
  };

  const lookUp = async (ask: KeyAsk, leftMs: number): Promise<KeySnapshot | null> => {
    const sentAtMs = steadyMs();
    const sentAfter = changes;
    const lookup = ask.ask === "key" ? { hash: hash("sha256", ask.secret) } : { id: ask.id };
    const snapshot = await keys.find(lookup, leftMs);
    if (snapshot !== null && sentAfter === changes) keep(nameOf(ask), snapshot, sentAtMs);
    return snapshot;
  };

  const fly = (ask: KeyAsk, leftMs: number): Promise<KeySnapshot | null> => {
    const name = nameOf(ask);
    const flight = lookUp(ask, leftMs).finally(() => {
      if (flights.get(name) === flight) flights.delete(name);
    });
    flights.set(name, flight);
    return flight;
  };

  return {
    kept: (ask: KeyAsk): KeySnapshot | undefined => {
      const entry = kept.get(nameOf(ask));
      return entry !== undefined && steadyMs() - entry.sentAtMs < policy.maxAgeMs ? entry.snapshot : undefined;
    },
    find: async (ask: KeyAsk): Promise<KeySnapshot | null> => {
      if (!policy.singleFlight) return lookUp(ask, budgetMs);
      const running = flights.get(nameOf(ask));
      if (running === undefined) return fly(ask, budgetMs);
      const joinedAtMs = steadyMs();
      try {
        return await running;
      } catch (error) {
        // The shared lookup failed, perhaps at the deadline of its first call. A call that joined later asks once.
        const leftMs = budgetMs - (steadyMs() - joinedAtMs);
        if (leftMs < 1) throw error;
        return flights.get(nameOf(ask)) ?? fly(ask, leftMs);
      }
    },
    /** Forgets a key that was changed through this replica; answers to earlier lookups are not kept. */
    forget: (id: string): void => {
      changes += 1;
      // A lookup in flight may return the old record, so no later call joins it.
      flights.clear();
      for (const [name, { snapshot }] of kept) if (snapshot.key.id === id) kept.delete(name);
    },
  };
};
