import { describe, expect, test } from "vitest";
import type { KeySnapshot } from "../../core/call.ts";
import { type Lookup, nameOfLookup } from "../ports.ts";
import { createKeyCache, type KeyAsk } from "./key-cache.ts";

const SECRET = "svc_sk_live_0123456789";
const BY_SECRET: KeyAsk = { ask: "key", secret: SECRET };
const BY_ID: KeyAsk = { ask: "key-by-id", id: "key_a" };
const snapshot = (id = "key_a"): KeySnapshot => ({ key: { id }, org: { id: "org_a" } }) as KeySnapshot;

/** Look-ups that are answered when the test says so, on a clock that the test moves. */
const rig = (policy = { maxAgeMs: 1_000, singleFlight: true }) => {
  const asked: {
    name: string;
    budgetMs: number;
    resolve(found: KeySnapshot | null): void;
    reject(error: Error): void;
  }[] = [];
  let nowMs = 0;
  const find = (lookup: Lookup, budgetMs: number) =>
    new Promise<KeySnapshot | null>((resolve, reject) =>
      asked.push({ name: nameOfLookup(lookup), budgetMs, resolve, reject }),
    );
  const cache = createKeyCache({ find }, policy, 1_000, () => nowMs);
  return { cache, asked, at: (ms: number) => (nowMs = ms) };
};

describe("remembered key records (item 142)", () => {
  test("are used for the revocation budget, counted from when the question was sent", async () => {
    const { cache, asked, at } = rig();
    const found = cache.find(BY_SECRET);
    at(400);
    asked[0]?.resolve(snapshot());
    await found;
    at(999);
    expect(cache.kept(BY_SECRET)).toEqual(snapshot());
    at(1_000);
    expect(cache.kept(BY_SECRET)).toBeUndefined();
  });

  test("neither an unknown key nor an error is remembered", async () => {
    const { cache, asked } = rig();
    const unknown = cache.find(BY_SECRET);
    asked[0]?.resolve(null);
    expect(await unknown).toBeNull();
    expect(cache.kept(BY_SECRET)).toBeUndefined();
    const failed = cache.find(BY_SECRET);
    asked[1]?.reject(new Error("away"));
    await expect(failed).rejects.toThrow("away");
    expect(cache.kept(BY_SECRET)).toBeUndefined();
  });

  test("many who ask for one key ask once; the secret itself is not sent", async () => {
    const { cache, asked } = rig();
    const all = Array.from({ length: 50 }, () => cache.find(BY_SECRET));
    expect(asked).toHaveLength(1);
    expect(asked[0]?.name).toMatch(/^[0-9a-f]{64}$/);
    asked[0]?.resolve(snapshot());
    expect(await Promise.all(all)).toEqual(Array.from({ length: 50 }, () => snapshot()));
  });

  test("who joined a question that failed asks once more, all of them together, with the time they have left", async () => {
    const { cache, asked, at } = rig();
    const first = cache.find(BY_SECRET);
    at(900);
    const late = [cache.find(BY_SECRET), cache.find(BY_SECRET)];
    at(1_000);
    asked[0]?.reject(new Error("no answer within 1000 ms"));
    await expect(first).rejects.toThrow();
    await Promise.resolve();
    await new Promise((resolve) => setImmediate(resolve));
    expect(asked.map(({ budgetMs }) => budgetMs)).toEqual([1_000, 900]);
    asked[1]?.resolve(snapshot());
    expect(await Promise.all(late)).toEqual([snapshot(), snapshot()]);
  });

  test("a change made here is seen here: what was asked before it is not remembered", async () => {
    const { cache, asked } = rig();
    const before = cache.find(BY_ID);
    cache.forget("key_a");
    asked[0]?.resolve(snapshot());
    await before;
    expect(cache.kept(BY_ID)).toBeUndefined();
    const after = cache.find(BY_ID);
    asked[1]?.resolve(snapshot());
    await after;
    expect(cache.kept(BY_ID)).toEqual(snapshot());
    cache.forget("key_a");
    expect(cache.kept(BY_ID)).toBeUndefined();
  });

  test("nobody joins a question that was asked before a change made here", async () => {
    const { cache, asked } = rig();
    const before = cache.find(BY_SECRET);
    cache.forget("key_a");
    const after = cache.find(BY_SECRET);
    expect(asked).toHaveLength(2);
    asked[0]?.resolve(snapshot("key_a"));
    await before;
    const joined = cache.find(BY_SECRET);
    expect(asked).toHaveLength(2);
    asked[1]?.resolve(null);
    expect([await after, await joined]).toEqual([null, null]);
  });

  test("without single flight each asks for itself", () => {
    const { cache, asked } = rig({ maxAgeMs: 1_000, singleFlight: false });
    void cache.find(BY_SECRET);
    void cache.find(BY_SECRET);
    expect(asked).toHaveLength(2);
  });
});
