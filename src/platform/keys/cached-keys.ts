/**
 * Snapshots kept for at most the revocation budget, counted from when the look-up was sent (item 142): a key revoked before
 * that moment is refused, one revoked after it is refused within the budget. Neither errors nor unknown keys are kept. One
 * look-up at a time for each key, so that an expiring snapshot is no stampede.
 */
import type { KeySnapshot } from "../../core/records.ts";
import type { Keys } from "../keys.ts";

export type CacheSettings = {
  /** Default 1000. */
  revocationBudgetMs?: number;
  /** Default 10 000 snapshots; the oldest goes first. */
  maxEntries?: number;
  /** A clock that is never set back. */
  steadyMs?: () => number;
};

type Entry = { snapshot: KeySnapshot; sentMs: number };

/** One look-up by hash or by id, cached. */
const cachedLookup = (
  ask: (name: string, budgetMs: number) => Promise<KeySnapshot | null>,
  settings: Required<CacheSettings>,
) => {
  const entries = new Map<string, Entry>();
  const running = new Map<string, Promise<KeySnapshot | null>>();
  /** Counts changes made through here: what was looked up before one is not kept. */
  let changes = 0;

  const send = (name: string, budgetMs: number): Promise<KeySnapshot | null> => {
    const sentMs = settings.steadyMs();
    const sentAt = changes;
    const lookup = ask(name, budgetMs)
      .then((snapshot) => {
        entries.delete(name);
        if (snapshot === null || sentAt !== changes) return snapshot;
        entries.set(name, { snapshot, sentMs });
        const oldest = entries.keys().next();
        if (entries.size > settings.maxEntries && !oldest.done) entries.delete(oldest.value);
        return snapshot;
      })
      .finally(() => running.delete(name));
    running.set(name, lookup);
    return lookup;
  };

  return {
    get: async (name: string, budgetMs: number): Promise<KeySnapshot | null> => {
      const askedMs = settings.steadyMs();
      const entry = entries.get(name);
      if (entry !== undefined && askedMs - entry.sentMs < settings.revocationBudgetMs) return entry.snapshot;
      const other = running.get(name);
      if (other === undefined) return send(name, budgetMs);
      try {
        return await other;
      } catch (error) {
        // Another's look-up failed, perhaps at its own deadline: this caller has not asked yet, and asks once.
        const leftMs = budgetMs - (settings.steadyMs() - askedMs);
        if (leftMs <= 0) throw error;
        return running.get(name) ?? send(name, leftMs);
      }
    },
    forget: (id: string): void => {
      changes += 1;
      for (const [name, { snapshot }] of entries) if (snapshot.key.id === id) entries.delete(name);
    },
  };
};

export const cachedKeys = (keys: Keys, settings: CacheSettings = {}): Keys => {
  const complete = { revocationBudgetMs: 1_000, maxEntries: 10_000, steadyMs: () => performance.now(), ...settings };
  const byHash = cachedLookup((hash, budgetMs) => keys.bySecretHash(hash, budgetMs), complete);
  const byId = cachedLookup((id, budgetMs) => keys.byId(id, budgetMs), complete);
  /** A change made through this replica is seen by it at once. */
  const changed = async <T>(id: string, change: Promise<T>): Promise<T> => {
    try {
      return await change;
    } finally {
      byHash.forget(id);
      byId.forget(id);
    }
  };
  return {
    ...keys,
    bySecretHash: byHash.get,
    byId: byId.get,
    update: (org, id, request, budgetMs) => changed(id, keys.update(org, id, request, budgetMs)),
    revoke: (org, id, budgetMs) => changed(id, keys.revoke(org, id, budgetMs)),
    patchKey: (id, patch) => changed(id, keys.patchKey(id, patch)),
  };
};
