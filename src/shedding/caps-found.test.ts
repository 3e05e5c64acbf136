import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { exponential } from "../workload/random.ts";
import {
  bucketFound,
  capBounds,
  GLOBAL_SHED,
  isContradiction,
  isExact,
  serviceTimeMs,
  slotBounds,
  writtenRate,
} from "./caps-found.ts";
import { type CappedServer, capped, playClimbs, rateLimited, type Server } from "./simulated-servers.fixture.ts";

const SEEDS = Array.from({ length: 12 }, (_, k) => k + 1);
const marginUs = 4_000;
const constant = (ms: number) => () => ms;
const varying = (ms: number, seed: number) => (n: number) => ms * exponential(seed, n, 91);

const capOf = (lines: readonly CallLine[], replicas?: number) => capBounds(lines, GLOBAL_SHED, { replicas, marginUs });

describe("the cap of one replica", () => {
  test.each([1, 2, 4, 8, 32, 64])("%i, streams of one length: exact", (cap) => {
    const server = capped({ replicas: [{ cap }], stayMs: constant(200) });
    expect(capOf(playClimbs(server, { base: Math.max(0, cap - 3) }))).toEqual({ least: cap, most: cap });
  });

  test.each([4, 16, 32])("%i, streams of exponential length: the interval holds it, and is exact as a rule", (cap) => {
    let exact = 0;
    for (const seed of SEEDS) {
      const server = capped({ replicas: [{ cap }], stayMs: varying(300, seed) });
      const found = capOf(playClimbs(server, { base: cap - 3, rounds: 12, sheds: 20 }));
      expect(found.least).toBeLessThanOrEqual(cap);
      expect(found.most).toBeGreaterThanOrEqual(cap);
      if (isExact(found)) exact += 1;
    }
    expect(exact).toBeGreaterThanOrEqual(10);
  });

  test("never reached: at least so many, and no upper bound", () => {
    const server = capped({ replicas: [{ cap: 500 }], stayMs: constant(400) });
    const { least, most } = capOf(playClimbs(server, { base: 20 }));
    expect([least > 20 && least <= 101, most]).toEqual([true, null]);
  });
});

/** In no interval that is said to be exact may the truth be missing. */
const isHonest = (found: ReturnType<typeof capOf>, truth: number): boolean =>
  isContradiction(found) || (found.least <= truth && (found.most ?? Number.POSITIVE_INFINITY) >= truth);

describe("several replicas", () => {
  const two = [{ cap: 16 }, { cap: 16 }];

  test("in turn, called for one: calls between the streams show that it is not one cap", () => {
    const server = capped({ replicas: two, stayMs: constant(200) });
    expect(isContradiction(capOf(playClimbs(server, { base: 13, ofReads: 2 })))).toBe(true);
  });

  test("unevenly spread, called for one: no one cap", () => {
    const server = capped({ replicas: two, stayMs: constant(200), route: (n) => (exponential(3, n, 5) < 0.9 ? 0 : 1) });
    expect(isContradiction(capOf(playClimbs(server, { base: 13, sheds: 20 })))).toBe(true);
  });

  test.each([2, 3])("%i, stated: each replica's cap lies in the interval, however calls are spread", (replicas) => {
    for (const route of [
      undefined,
      (_: number, loads: readonly number[]) => loads.indexOf(Math.min(...loads)),
      ...SEEDS.map((seed) => (n: number) => Math.floor(exponential(seed, n, 5) * 97) % replicas),
    ]) {
      const server = capped({
        replicas: Array.from({ length: replicas }, () => ({ cap: 16 })),
        stayMs: constant(200),
        route,
      });
      expect(isHonest(capOf(playClimbs(server, { base: 13, ofReads: 2 }), replicas), 16)).toBe(true);
    }
  });
});

describe("what is no cap, or not to be known", () => {
  const refuted = (server: CappedServer, how: Partial<Parameters<typeof playClimbs>[1]> = {}): boolean => {
    const found = capOf(playClimbs(server, { base: 13, rounds: 12, ...how }));
    return isContradiction(found) || !isExact(found);
  };

  test("a limit that adapts", () => {
    for (const seed of SEEDS) {
      const capAt = (us: number) => 16 + Math.round(6 * Math.sin(us / 2.3e6 + seed));
      expect(refuted(capped({ replicas: [{ cap: 0 }], stayMs: constant(200), capAt }), { base: 8 })).toBe(true);
    }
  });

  test("other people's calls that come and go", () => {
    for (const seed of SEEDS) {
      const others = (us: number) => Math.floor(4 * exponential(seed, Math.floor(us / 300_000), 7)) % 9;
      expect(refuted(capped({ replicas: [{ cap: 24 }], stayMs: constant(200), others }))).toBe(true);
    }
  });

  test("an edge that holds answers back until they are whole: an upper bound alone", () => {
    const server = capped({ replicas: [{ cap: 16 }], stayMs: constant(200), buffers: true });
    expect(capOf(playClimbs(server, { base: 13 }))).toEqual({ least: 1, most: 16 });
  });
});

describe("slots below the cap", () => {
  const calmOf = (server: CappedServer): CallLine[] =>
    Array.from({ length: 8 }, (_, k) => server.send(1e4 + k * 100_000_000, "stream"));

  test("those beyond them wait for a stream to end", () => {
    const replica = [{ cap: 24, slots: 16 }];
    const calm = calmOf(capped({ replicas: replica, stayMs: constant(200) }));
    const lines = playClimbs(capped({ replicas: replica, stayMs: constant(200) }), { base: 14, sheds: 3 });
    expect(slotBounds(calm, lines, { marginUs })).toEqual({ least: 16, most: 16 });
    expect(capOf(lines)).toEqual({ least: 24, most: 24 });
  });

  test("nobody waits: at least as many as the cap", () => {
    const replica = [{ cap: 24 }];
    const calm = calmOf(capped({ replicas: replica, stayMs: constant(200) }));
    const lines = playClimbs(capped({ replicas: replica, stayMs: constant(200) }), { base: 21 });
    expect(slotBounds(calm, lines, { marginUs })).toEqual({ least: 24, most: null });
  });

  test("service time: the mean of those that were alone, less the way", () => {
    for (const seed of SEEDS) {
      const stay = seed % 2 === 0 ? constant(200) : varying(200, seed);
      const server = capped({ replicas: [{ cap: 24 }], stayMs: stay, wayUs: 10_000 });
      const calm = calmOf(server);
      const reads = Array.from({ length: 5 }, (_, k) => server.send(1e9 + k * 1e6, "read"));
      const found = serviceTimeMs(calm, reads);
      if (seed % 2 === 0) expect(found?.value).toBeCloseTo(199, 3);
      expect(found === null || found.low < found.high).toBe(true);
      if (seed % 2 === 0) expect([(found?.low ?? 0) <= 200, (found?.high ?? 0) >= 200]).toEqual([true, true]);
    }
  });
});

describe("a key's bucket", () => {
  /** One call after the other, at most `perS`; a refusal is followed by a pause. */
  const press = (server: Server, perS: number, durationS: number): CallLine[] => {
    const lines: CallLine[] = [];
    let us = 1_000_000;
    for (let i = 0; us < 1_000_000 + durationS * 1e6; i += 1) {
      const { outcome } = server(us + 500, i);
      lines.push({ id: `b-${i}`, sent_us: us, first_us: us + 1_000, done_us: us + 1_000, outcome } as CallLine);
      us += outcome === "200" ? 1e6 / perS : Math.max(4_000, 1e6 / perS);
    }
    return lines;
  };

  test.each([
    [50, 100],
    [10, 20],
    [16.67, 5],
    [100, 1],
    [3, 30],
  ])("%d a second, burst of %i: both intervals hold the truth, and the burst is known to a call", (rate, burst) => {
    const found = bucketFound(press(rateLimited(rate, burst, 1), 400, 8));
    if (!found.found) throw new Error(found.code);
    expect(found.burst.least).toBeLessThanOrEqual(burst);
    expect(found.burst.most).toBeGreaterThanOrEqual(burst);
    expect(found.burst.most - found.burst.least).toBeLessThanOrEqual(2);
    expect(found.ratePerS.low).toBeLessThanOrEqual(rate);
    expect(found.ratePerS.high).toBeGreaterThanOrEqual(rate);
    // One token is gone when it is not fetched at once.
    if (burst > 1) expect(found.ratePerS.high - found.ratePerS.low).toBeLessThan(0.05 * rate + 0.3);
    expect(writtenRate(found.ratePerS)).toBeGreaterThanOrEqual(Math.floor(rate));
  });

  test("a limit by the clock's second is no bucket; a rate that is not reached is said", () => {
    let second = -1;
    let used = 0;
    const byTheSecond: Server = (us) => {
      if (Math.floor(us / 1e6) !== second) [second, used] = [Math.floor(us / 1e6), 0];
      used += 1;
      return { doneUs: us, outcome: used > 50 ? "429 rate_limited" : "200" };
    };
    expect(bucketFound(press(byTheSecond, 300, 6))).toEqual({ found: false, code: "no-bucket" });
    expect(bucketFound(press(rateLimited(500, 50, 1), 300, 3))).toEqual({ found: false, code: "never-refused" });
    expect(bucketFound(press(rateLimited(200, 1, 1), 400, 3))).toEqual({ found: false, code: "too-fast" });
    expect(bucketFound(press(rateLimited(1, 50, 1), 300, 3))).toEqual({ found: false, code: "too-short" });
  });

  test("a number is written that accuses nobody", () => {
    expect(writtenRate({ value: 50, low: 49.9, high: 50.2 })).toBe(50);
    expect(writtenRate({ value: 16.7, low: 16.5, high: 16.8 })).toBe(16.8);
    expect(writtenRate({ value: 50, low: 45, high: 55 })).toBe(55);
    // Tokens that come in steps of 100 ms, 10 a second.
    expect(writtenRate({ value: 9.87, low: 9.85, high: 9.88 })).toBe(10);
    expect(writtenRate({ value: 10.04, low: 10.02, high: 10.05 })).toBeCloseTo(10.05, 1);
  });
});
