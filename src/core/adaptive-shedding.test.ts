import { describe, expect, test } from "vitest";
import { adaptiveShedder } from "./shedding.ts";

/**
 * A deployment in virtual time: `slots` calls are served at once for `serviceMs`, the rest wait first come, first served.
 * `offered` calls arrive each millisecond for `forMs`. Gives back the limit at the end and who was admitted.
 */
const run = (slots: number, serviceMs: number, offeredPerMs: number, forMs: number, orgs: (i: number) => string) => {
  const shedder = adaptiveShedder({ globalInFlight: 400, orgInFlight: 400, toleratedWaitMs: 10 });
  const waiting: { org: string; at: number }[] = [];
  const running: { org: string; until: number }[] = [];
  const offered: Record<string, number> = {};
  const served: Record<string, number> = {};
  let due = 0;
  let i = 0;
  const limits: number[] = [];
  for (let now = 0; now < forMs; now += 1) {
    for (const call of running.filter(({ until }) => until <= now)) {
      running.splice(running.indexOf(call), 1);
      shedder.leaveOrganization(call.org);
      shedder.leave();
      served[call.org] = (served[call.org] ?? 0) + 1;
    }
    for (due += offeredPerMs; due >= 1; due -= 1) {
      const org = orgs(i++);
      offered[org] = (offered[org] ?? 0) + 1;
      if (!shedder.enter()) continue;
      if (shedder.enterOrganization(org, null)) waiting.push({ org, at: now });
      else shedder.leave();
    }
    while (running.length < slots && waiting.length > 0) {
      const next = waiting.shift() as { org: string; at: number };
      shedder.sample(now - next.at, now);
      running.push({ org: next.org, until: now + serviceMs });
    }
    limits.push(shedder.limit());
  }
  return { shedder, limits, offered, served, left: waiting.length + running.length };
};

const mean = (values: number[]): number => values.reduce((sum, value) => sum + value, 0) / values.length;

describe("adaptive shedding", () => {
  test("finds a limit near the capacity under three times the load, keeps the slots busy and the queue short", () => {
    const { limits, served } = run(40, 100, 1.2, 10_000, () => "a");
    const settled = mean(limits.slice(-2_000));
    expect(settled).toBeGreaterThan(40);
    expect(settled).toBeLessThan(40 * 1.6);
    // 40 slots of 100 ms carry 400 a second: nearly all of it is used.
    expect(served.a).toBeGreaterThan(0.9 * 4_000);
  });

  test("follows a capacity that halves within a second", () => {
    const shedder = adaptiveShedder({ globalInFlight: 400, orgInFlight: 400, toleratedWaitMs: 10 });
    for (let i = 0; i < 100; i += 1) shedder.enter();
    const before = shedder.limit();
    for (let now = 0; now <= 1_000; now += 1) shedder.sample(200, now);
    expect(shedder.limit()).toBeLessThan(before / 2);
  });

  test("does not grow while it is not used", () => {
    const shedder = adaptiveShedder({ globalInFlight: 400, orgInFlight: 400, toleratedWaitMs: 10 });
    const before = shedder.limit();
    for (let now = 0; now <= 5_000; now += 1) shedder.sample(0, now);
    expect(shedder.limit()).toBe(before);
  });

  test("an organization under its share is served while another floods", () => {
    // The quiet one offers 60 calls a second, 15 % of the capacity; the noisy one twenty times as much.
    const { offered, served } = run(40, 100, 1.26, 10_000, (i) => (i % 21 === 0 ? "quiet" : "noisy"));
    expect((served.quiet ?? 0) / (offered.quiet ?? 1)).toBeGreaterThan(0.95);
    expect((served.noisy ?? 0) / (offered.noisy ?? 1)).toBeLessThan(0.5);
  });

  test("where the limit is small, the first calls of a few busy organizations do not keep a quiet one out", () => {
    const shedder = adaptiveShedder({ globalInFlight: 400, orgInFlight: 400, toleratedWaitMs: 10 });
    for (let now = 0; now <= 5_000; now += 1) shedder.sample(100, now);
    expect(shedder.limit()).toBeLessThan(5);
    const asks = (org: string): boolean => {
      if (!shedder.enter()) return false;
      if (shedder.enterOrganization(org, null)) return true;
      shedder.leave();
      return false;
    };
    // Seven that take whatever they get, again and again.
    for (let i = 0; i < 70; i += 1) asks(`busy ${i % 7}`);
    expect(asks("quiet")).toBe(true);
    expect(asks("busy 0")).toBe(false);
    expect(shedder.inFlight()).toBeLessThanOrEqual(5 + 8);
  });

  test("alone, an organization may use everything", () => {
    const shedder = adaptiveShedder({ globalInFlight: 40, orgInFlight: 40, toleratedWaitMs: 10 });
    const limit = Math.floor(shedder.limit());
    let admitted = 0;
    for (let i = 0; i < limit; i += 1) if (shedder.enter() && shedder.enterOrganization("a", null)) admitted += 1;
    expect(admitted).toBe(limit);
  });

  test("below the cap of the deployment even when nothing ever waits", () => {
    const shedder = adaptiveShedder({ globalInFlight: 50, orgInFlight: 50, toleratedWaitMs: 10 });
    for (let now = 0; now < 5_000; now += 1) {
      shedder.enter();
      shedder.sample(0, now);
    }
    expect(shedder.inFlight()).toBe(50);
    expect(shedder.limit()).toBeLessThanOrEqual(50);
  });
});
