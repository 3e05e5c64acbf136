/** The search beside servers whose capacity stands in books, in virtual time: what it answers, and how often it is right. */
import { describe, expect, test } from "vitest";
import { bisect } from "../history/statistics/statistics.ts";
import type { Arrivals } from "../workload/load-profiles.ts";
import { type Answer, demandVerdict, firstLimit } from "./capacity-claims.ts";
import type { ProbeResult } from "./probe.ts";
import { nextStep, POLICY, type SearchPolicy } from "./search.ts";
import {
  playVirtually,
  REFUSALS,
  SLOWER,
  type VirtualObjective,
  type VirtualServer,
} from "./virtual-server.fixture.ts";

/** Share of calls lost by C slots and K places at a Erlang, Poisson arrivals, exponential service (any, when K = C). */
const loss = (slots: number, places: number, erlang: number): number => {
  let term = 1;
  let sum = 1;
  for (let n = 1; n <= places; n++) {
    term *= erlang / Math.min(n, slots);
    sum += term;
  }
  return term / sum;
};
/** Rate at which `loss` is `limit`. */
const lossRate = ({ slots, places, serviceS }: VirtualServer, limit: number): number => {
  return bisect(2 * slots, (erlang) => loss(slots, places, erlang) >= limit) / serviceS;
};

/** Rate at which `share` of the calls of a queue with exponential service take longer than `thanS` (Erlang C). */
const lateRate = ({ slots, serviceS }: VirtualServer, thanS: number, share: number): number => {
  const lateAt = (perS: number): number => {
    const erlang = perS * serviceS;
    let lost = 1;
    for (let n = 1; n <= slots; n++) lost = (erlang * lost) / (n + erlang * lost);
    const waits = lost / (1 - (erlang / slots) * (1 - lost));
    const [drain, serve] = [slots / serviceS - perS, 1 / serviceS];
    const [slow, both] = [Math.exp(-serve * thanS), Math.exp(-drain * thanS) - Math.exp(-serve * thanS)];
    return slow + ((waits * serve) / (serve - drain)) * both;
  };
  return bisect(slots / serviceS, (perS) => lateAt(perS) >= share);
};

type Played = { answer: Answer; results: ProbeResult[] };

const search = (
  server: VirtualServer,
  objectives: readonly VirtualObjective[],
  seed: number,
  more: Partial<SearchPolicy> = {},
  arrivals: Arrivals = "poisson",
  spoil: (result: ProbeResult) => ProbeResult = (result) => result,
): Played => {
  const limits = objectives.map(({ limit }) => limit);
  const results: ProbeResult[] = [];
  for (let at = 0; at < 100; at++) {
    const step = nextStep(results, limits, { ...POLICY, maxPerS: Number.POSITIVE_INFINITY, ...more });
    if ("answer" in step) return { answer: step.answer, results };
    results.push(spoil(playVirtually(server, step.probe, objectives, seed * 1000 + at, arrivals)));
  }
  throw new Error("the search did not come to an end");
};

const SEEDS = Array.from({ length: 12 }, (_, i) => i + 1);
const MDCC: VirtualServer = { slots: 16, places: 16, serviceS: 0.2, service: "constant" };
const MMCK: VirtualServer = { slots: 16, places: 48, serviceS: 0.2, service: "exponential" };
const MM1: VirtualServer = { slots: 1, places: 100_000, serviceS: 0.01, service: "exponential" };
const MM16: VirtualServer = { slots: 16, places: 100_000, serviceS: 0.2, service: "exponential" };

describe("the capacity search", () => {
  test.each<[string, VirtualServer, VirtualObjective[], number, { within10: number; covers: number }]>([
    ["Erlang-B: 16 slots of 200 ms", MDCC, [REFUSALS(0.01)], lossRate(MDCC, 0.01), { within10: 11, covers: 10 }],
    ["16 slots and 32 that wait", MMCK, [REFUSALS(0.01)], lossRate(MMCK, 0.01), { within10: 11, covers: 10 }],
    // The time in a queue of one exponential server is exponential: p99 = ln 100 / (service rate - rate).
    ["a queue under p99<=100ms", MM1, [SLOWER(0.1, 0.01)], 100 - Math.log(100) / 0.1, { within10: 8, covers: 11 }],
    ["16 servers, p99<=1.2s", MM16, [SLOWER(1.2, 0.01)], lateRate(MM16, 1.2, 0.01), { within10: 11, covers: 11 }],
    [
      "two objectives, of which the refusals break first",
      MDCC,
      [SLOWER(0.3, 0.01), REFUSALS(0.01)],
      lossRate(MDCC, 0.01),
      { within10: 11, covers: 10 },
    ],
  ])("%s", (_, server, objectives, truth, atLeast) => {
    const answers = SEEDS.map((seed) => search(server, objectives, seed, { playS: 200 }).answer);
    const within10 = answers.filter(({ ratePerS }) => Math.abs(ratePerS / truth - 1) <= 0.1).length;
    const covers = answers.filter(
      ({ low, high }) => low <= truth && truth <= (high ?? Number.POSITIVE_INFINITY),
    ).length;
    expect(within10).toBeGreaterThanOrEqual(atLeast.within10);
    expect(covers).toBeGreaterThanOrEqual(atLeast.covers);
    expect(new Set(answers.map(({ binding }) => binding))).toEqual(new Set([objectives.length - 1]));
  });

  test("uniform arrivals on constant service: C / S, where refusals jump from none to many", () => {
    const { answer } = search(MDCC, [REFUSALS(0.01)], 1, {}, "uniform");
    expect(answer.kind).toBe("found");
    expect(answer.low).toBeLessThanOrEqual(80);
    expect(answer.high).toBeGreaterThanOrEqual(80);
    expect(Math.abs(answer.ratePerS / 80 - 1)).toBeLessThan(0.06);
  });

  test("doubles, never plays above the rate that is permitted, and says that this was the limit", () => {
    const { answer, results } = search(MDCC, [REFUSALS(0.01)], 1, { maxPerS: 20 });
    expect(results.map(({ plan }) => plan.ratePerS).slice(0, 4)).toEqual([4, 8, 16, 20]);
    expect(Math.max(...results.map(({ plan }) => plan.ratePerS))).toBe(20);
    expect(answer).toMatchObject({
      kind: "at-least",
      low: 20,
      high: null,
      reason: /^at least 20.0.s; permits.load_max_rps .* leaves no room for more/,
    });
  });

  test("a generator at its end is the limit of the answer, not the deployment's", () => {
    const late = (result: ProbeResult): ProbeResult =>
      result.plan.ratePerS > 30 ? { ...result, generator: { ...result.generator, dropped: 5 } } : result;
    const { answer } = search(MDCC, [REFUSALS(0.01)], 1, {}, "poisson", late);
    expect(answer.kind).toBe("at-least");
    expect(answer.low).toBeGreaterThanOrEqual(16);
    expect(answer.low).toBeLessThanOrEqual(30);
    expect(answer.reason).toMatch(/the generator was the limit/);
  });

  test("a disturbance of the host that passes is played again", () => {
    let disturbed = 0;
    const once = (result: ProbeResult): ProbeResult => {
      if (result.plan.ratePerS !== 64 || disturbed++ > 0) return result;
      return { ...result, generator: { ...result.generator, lagMsP99: 80 } };
    };
    const { answer, results } = search(MDCC, [REFUSALS(0.01)], 1, {}, "poisson", once);
    expect(answer.kind).toBe("found");
    expect(results.filter(({ plan }) => plan.ratePerS === 64)).toHaveLength(2);
  });

  test("a host that is disturbed all the time is no limit of the generator, and nothing is found on it", () => {
    const always = (result: ProbeResult): ProbeResult => ({
      ...result,
      generator: { ...result.generator, lagMsP99: 80 },
    });
    const { answer } = search(MDCC, [REFUSALS(0.01)], 1, {}, "poisson", always);
    expect(answer).toMatchObject({ kind: "unknown", reason: expect.stringMatching(/its host was disturbed/) });
  });

  test.each([
    ["other programs", { othersShare: 0.8 }, /other programs used 80 % of this machine .* end them/],
    [
      "a limit of the control group",
      { throttledShare: 0.5 },
      /control group held it back for 50 % .* raise that limit/,
    ],
  ])("nothing is found beside %s that take the machine", (_, by, said) => {
    const always = (result: ProbeResult): ProbeResult => ({ ...result, generator: { ...result.generator, ...by } });
    const { answer } = search(MDCC, [REFUSALS(0.01)], 1, {}, "poisson", always);
    expect(answer).toMatchObject({ kind: "unknown", reason: expect.stringMatching(said) });
    const found = { answer, limit: firstLimit([], 0, false) };
    expect(demandVerdict(found, { peakPerS: 1000, growth: 1, headroom: 0 })).toEqual({
      ...{ verdict: "inconclusive", code: "machine-disturbed" },
    });
  });

  test("beside programs that came and went the same is found as without them", () => {
    let probes = 0;
    const once = (result: ProbeResult): ProbeResult => {
      const othersShare = [4, 5].includes(probes++) ? 0.8 : 0.1;
      return { ...result, generator: { ...result.generator, othersShare } };
    };
    expect(search(MDCC, [REFUSALS(0.01)], 1, {}, "poisson", once).answer.kind).toBe("found");
  });

  test("what is broken at any rate is broken at any rate", () => {
    const closed: VirtualServer = { ...MDCC, slots: 1, places: 0 };
    expect(search(closed, [REFUSALS(0.01)], 1).answer).toMatchObject({ kind: "never", ratePerS: 0 });
  });

  test("the generator is tried at twice the answer, and the safe end is confirmed", () => {
    const { answer, results } = search(MDCC, [REFUSALS(0.01)], 3);
    const confirmed = results.filter(({ plan }) => plan.purpose === "confirm").at(-1) as ProbeResult;
    expect(confirmed.plan.ratePerS).toBeLessThan(answer.ratePerS);
    expect(Math.max(...results.map(({ plan }) => plan.ratePerS))).toBeGreaterThanOrEqual(1.8 * answer.ratePerS);
    expect(answer.generator).toMatch(/times the answer/);
  });
});
