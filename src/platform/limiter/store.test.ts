import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, describe, expect, test } from "vitest";
import type { Instant } from "../ports.ts";
import { aTake, refundOf } from "./limiter.fixture.ts";
import { type LimiterStore, oldestKeptWindow, openLimiterStore, rateBuckets } from "./store.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-tables-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const PLACES: Record<string, () => string> = {
  memory: () => ":memory:",
  "a file": () => join(folder, `${randomUUID()}.sqlite`),
};

const at = (date: string): Instant => ({ nowMs: Date.parse(date), steadyMs: 0 });
const take = (store: LimiterStore, fields: Parameters<typeof aTake>[0], moment: Instant) =>
  (store.take([aTake(fields)], moment) as ReturnType<LimiterStore["take"]> & unknown[])[0];

describe.each(Object.entries(PLACES))("a store in %s", (_name, place) => {
  test("old months are forgotten whole, and what is kept still counts", () => {
    const store = openLimiterStore(place());
    const [september, november] = [at("2026-09-30T23:59:59.999Z"), at("2026-11-01T00:00:00.000Z")];
    const old = aTake({ org: "org_a", request_id: "r-1" });
    const kept = aTake({ org: "org_a", request_id: "r-2" });
    store.take([old], september);
    store.take([kept], november);
    store.refund([refundOf(aTake({ request_id: "r-3" }))], september);
    // A refund in a later month keeps the month of its charge.
    store.refund([refundOf(old)], november);
    store.dropBefore("2026-10");
    expect([...store.ledger("r-")].map(({ request_id }) => request_id)).toEqual(["r-2"]);
    expect(store.used("org_a", "map_loads", september)).toBe(0);
    expect(store.used("org_a", "map_loads", november)).toBe(1);
    expect(store.take([kept], november)).toMatchObject([{ verdict: "taken", used: 1 }]);
    take(store, { org: "org_a", request_id: "r-4" }, november);
    expect([...store.ledger("r-")].map(({ request_id }) => request_id)).toEqual(["r-2", "r-4"]);
    store.close();
  });

  test("the last moment of a month and the first of the next are different windows", () => {
    const store = openLimiterStore(place());
    const meter = { name: "map_loads", amount: 1, cap: 1 } as const;
    expect(take(store, { meter }, at("2026-12-31T23:59:59.999Z"))).toMatchObject({
      verdict: "taken",
      window: "2026-12",
    });
    expect(take(store, { meter }, at("2026-12-31T23:59:59.999Z"))).toMatchObject({ verdict: "over_cap" });
    expect(take(store, { meter }, at("2027-01-01T00:00:00.000Z"))).toMatchObject({
      verdict: "taken",
      window: "2027-01",
    });
    store.close();
  });

  test("a ledger that is being read ends where it stood when it was asked for", () => {
    const store = openLimiterStore(place());
    const now = at("2026-11-10T00:00:00Z");
    for (let i = 0; i < 3; i += 1) take(store, {}, now);
    let seen = 0;
    for (const _line of store.ledger("")) {
      seen += 1;
      take(store, {}, now);
    }
    expect(seen).toBe(3);
    store.close();
  });
});

test("a batch that cannot be stored takes nothing: no charge, no line, no rate token", () => {
  const path = join(folder, "fails.sqlite");
  const store = openLimiterStore(path);
  const other = new DatabaseSync(path);
  other.exec(`CREATE TRIGGER full BEFORE INSERT ON ledger WHEN NEW.org = 'org_bad'
    BEGIN SELECT RAISE(ABORT, 'the disk is full'); END`);
  const now = at("2026-11-10T00:00:00Z");
  const rate = { perS: 0.001, burst: 1 };
  const batch = [aTake({ org: "org_good", key: "key_r", rate }), aTake({ org: "org_bad" })];
  expect(() => store.take(batch, now)).toThrow("the disk is full");
  expect(store.used("org_good", "map_loads", now)).toBe(0);
  expect([...store.ledger("")]).toEqual([]);
  other.exec("DROP TRIGGER full");
  other.close();
  expect(store.take(batch, now)).toMatchObject([{ verdict: "taken" }, { verdict: "taken" }]);
  store.close();
});

test("a file of another layout is refused with a sentence", () => {
  const path = join(folder, "other.sqlite");
  const db = new DatabaseSync(path);
  db.exec("CREATE TABLE something (id); PRAGMA user_version = 7");
  db.close();
  expect(() => openLimiterStore(path)).toThrow("expected layout 1");
});

test("rate buckets that are full again are forgotten", () => {
  const buckets = rateBuckets();
  for (let i = 0; i < 50_000; i += 1) buckets.set(`key_${i}`, i + 20, i);
  expect(buckets.size()).toBeLessThan(2_048);
  buckets.set("key_busy", 1e9, 50_000);
  for (let i = 0; i < 5_000; i += 1) buckets.set(`later_${i}`, 50_020 + i, 50_000 + i);
  expect(buckets.tatMs("key_busy")).toBe(1e9);
});

test("the month before is the oldest that is kept", () => {
  expect(oldestKeptWindow(Date.parse("2026-11-30T23:00:00Z"))).toBe("2026-10");
  expect(oldestKeptWindow(Date.parse("2027-01-01T00:00:00Z"))).toBe("2026-12");
});
