import { describe, expect, test } from "vitest";
import type { CallLine } from "../history/line.ts";
import { arrivalTimesUs, constant } from "../workload/load-profiles.ts";
import { capacityOf, nextProbe, PROBE_S, type Probe, probeOf } from "./block-plan.ts";

const call = (atUs: number, outcome: string): CallLine => ({
  type: "call",
  id: "c",
  stage: "probe",
  driver: "open-loop",
  org: "org_a",
  route: "chat.control",
  outcome,
  intended_us: atUs,
  started_us: atUs,
  connect_us: 0,
  sent_us: atUs,
  first_us: null,
  done_us: atUs + 100,
  attempt: 0,
  clock_error_us: 0,
  ended: "done",
});

/** A deployment that serves so many calls a second and refuses the rest, whatever comes. */
const playedOn = (capacityPerS: number, ratePerS: number): Probe => {
  const share = Math.min(1, capacityPerS / ratePerS);
  const lines = arrivalTimesUs(constant(ratePerS, PROBE_S), "uniform", 1).map((at, n) =>
    call(at, Math.floor((n + 1) * share) > Math.floor(n * share) ? "200" : "429 b2b_overloaded"),
  );
  return probeOf(ratePerS, lines, 0);
};

const probed = (capacityPerS: number, mostPerS = 10_000): Probe[] => {
  const probes: Probe[] = [];
  for (let rate = nextProbe(probes, mostPerS); rate !== null; rate = nextProbe(probes, mostPerS)) {
    probes.push(playedOn(capacityPerS, rate));
  }
  return probes;
};

describe("the probes", () => {
  test("find the capacity of a deployment within a tenth, in a few steps", () => {
    for (const truth of [5, 33, 80, 250, 900]) {
      const probes = probed(truth);
      const found = capacityOf(probes);
      expect(found.isReached).toBe(true);
      expect(Math.abs(found.perS / truth - 1)).toBeLessThan(0.1);
      expect(probes.length).toBeLessThanOrEqual(8);
    }
  });

  test("ask twice before they believe a limit: once the machine was busy for a moment", () => {
    const probes: Probe[] = [];
    for (let rate = nextProbe(probes, 10_000); rate !== null; rate = nextProbe(probes, 10_000)) {
      probes.push(playedOn(probes.length === 1 ? 23 : 250, rate));
    }
    expect(probes.map(({ ratePerS }) => ratePerS)).toEqual([20, 40, 40, 80, 160, 320, 320]);
    expect(capacityOf(probes).perS).toBeCloseTo(250, -1);
  });

  test("take the rate of a key for what it lets through once its saved tokens are gone", () => {
    const probe = (ratePerS: number, servedPerS: number, isByRate = false): Probe => ({
      ratePerS,
      servedPerS,
      isByRate,
    });
    expect(capacityOf([probe(80, 80), probe(160, 50, true)]).perS).toBe(50);
    expect(capacityOf([probe(80, 80), probe(160, 50)]).perS).toBe(80);
    const lines = Array.from({ length: 100 }, (_, n) =>
      call(1.2e6 + n * 1e4, n % 2 === 0 ? "200" : "429 rate_limited"),
    );
    expect(probeOf(160, lines, 0).isByRate).toBe(true);
  });

  test("send no more than is allowed, and say so when that showed no limit", () => {
    const probes = probed(500, 100);
    expect(Math.max(...probes.map(({ ratePerS }) => ratePerS))).toBe(100);
    expect(capacityOf(probes).isReached).toBe(false);
  });

  test("of a deployment that serves nothing end at once, with nothing", () => {
    expect(probed(0)).toHaveLength(1);
    expect(capacityOf(probed(0))).toEqual({ perS: 0, isReached: true });
  });
});
