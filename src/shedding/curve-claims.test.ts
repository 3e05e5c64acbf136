import { describe, expect, test } from "vitest";
import { CALM } from "../history/machines.fixture.ts";
import { bareFacts, type Claim, type StageFacts } from "../history/run-document.ts";
import { known } from "../history/statistics/statistics.ts";
import { LOWEST_IF_GUESSED, profileDurationS, upAndDown } from "../workload/load-profiles.ts";
import { uniform } from "../workload/random.ts";
import { kneeRamp } from "../workload/stories/reads.ts";
import { SHARE_OF_PERMIT, TOP_OF_CURVE } from "../workload/story.ts";
import { type Curve, type Estimate, type LossSystem, levelsOf, type PlannedLevel } from "./curve.ts";
import { judgeCurve } from "./curve-claims.ts";
import { openCurve } from "./curve-fold.ts";
import { carriedPerS } from "./knee.ts";
import { readRamp } from "./knee-of-ramp.ts";
import { levelsBelow, refusalPriceOf } from "./measures.ts";
import {
  FAULTY,
  gradient,
  HONEST,
  KNEE_PER_S,
  ORGANIZATIONS,
  playRamp,
  queueing,
  rateLimited,
  replicated,
  type Server,
  START_US,
} from "./simulated-servers.fixture.ts";

const STAGE = "shedding-curve";
const SHORT_S = 60;
const LONG_S = 300;

const curveOf = (
  server: Server,
  seed: number,
  lastsS: number,
  late?: (atS: number) => number,
  kneePerS = KNEE_PER_S,
): Curve => {
  const profile = upAndDown(kneePerS, lastsS);
  const fold = openCurve({ stage: STAGE, planned: levelsOf(profile) });
  const lines = playRamp(server, profile, seed, { stage: STAGE, organizations: ORGANIZATIONS, lateUs: late });
  for (const line of lines.reverse()) fold.see(line);
  const curve = fold.end(START_US);
  if (typeof curve === "string") throw new Error(curve);
  return curve;
};

const played = new Map<number, Curve>();
/** The curve of sixteen slots, played once for all tests that begin with it. */
const sixteenSlots = (lastsS: number): Curve =>
  known(played, lastsS, () => curveOf(queueing({ slots: 16, inFlight: 16, serviceMs: 200 }), 1, lastsS));

/** The claims of a curve around the knee that a ramp found just before, on the same server. */
const claimsAfterRamp = (server: Server, seed: number, lastsS: number, facts: Partial<StageFacts> = {}): Claim[] => {
  const ramp = kneeRamp(6 * KNEE_PER_S);
  const lines = playRamp(server, ramp, seed);
  const { knee, served } = readRamp(lines, ramp);
  if (!knee.found) throw new Error(knee.reason);
  const profile = upAndDown(knee.capacityPerS, lastsS);
  const startUs = START_US + (profileDurationS(ramp) + 5) * 1e6;
  const fold = openCurve({ stage: STAGE, planned: levelsOf(profile) });
  for (const line of playRamp(server, profile, seed, { stage: STAGE, startUs })) fold.see(line);
  const curve = fold.end(startUs);
  if (typeof curve === "string") throw new Error(curve);
  return claimsOf(curve, { ...facts, curve: { not_played: [], ramp: served } });
};

const claimsOf = (curve: Curve, facts: Partial<StageFacts> = {}): Claim[] =>
  judgeCurve(curve, { ...bareFacts(STAGE), exclusive: true, ...facts }, "-").claims;

const failedOf = (claims: readonly Claim[]): string[] =>
  claims.filter(({ verdict }) => verdict === "fail").map(({ id, reason }) => `${id}: ${reason}`);

const longGradient = (seed: number): Server =>
  gradient({ slots: 64, serviceMs: 800, service: "constant", everyS: 15, seed });

describe("a server that does nothing wrong is accused of nothing", () => {
  test.each(Object.keys(HONEST))("%s", (name) => {
    const make = HONEST[name] as (seed: number, lastsS: number) => Server;
    for (const seed of [1, 2]) {
      expect(failedOf(claimsOf(curveOf(make(seed, SHORT_S), seed, SHORT_S))), `seed ${seed}, short`).toEqual([]);
    }
    expect(failedOf(claimsOf(curveOf(make(3, LONG_S), 3, LONG_S))), "long").toEqual([]);
  });

  test.each([
    ["a limiter that measures long calls with three in flight", 2, 80, longGradient],
    ["the same on another seed", 6, 80, longGradient],
    [
      "replicas of one slot each",
      5,
      19,
      (seed: number) => replicated({ slots: 1, serviceMs: 200, inFlight: 1, seed }, [1, 1, 1, 1]),
    ],
  ])("%s, in a short play", (_name, seed, kneePerS, make) => {
    expect(failedOf(claimsOf(curveOf(make(seed), seed, SHORT_S, undefined, kneePerS)))).toEqual([]);
  });

  test("a limiter that measures with three calls in flight at every calm level", () => {
    const server = gradient({ slots: 64, serviceMs: 800, service: "exponential", everyS: 8, seed: 1 });
    const claims = claimsOf(curveOf(server, 1, LONG_S / 2));
    expect(failedOf(claims.filter(({ level }) => level === "must"))).toEqual([]);
    expect(claims.find(({ id }) => id === "curve/false_sheds")).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("as of a limit"),
    });
  });

  test("a limiter that sinks on the way up alone, which is no cost of refusals", () => {
    const server = gradient({ slots: 16, serviceMs: 200, service: "exponential", everyS: 6, seed: 12 });
    const profile = upAndDown(KNEE_PER_S, SHORT_S);
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile) });
    for (const line of playRamp(server, profile, 12, { stage: STAGE })) fold.see(line);
    const claims = claimsOf(fold.end(START_US) as Curve);
    expect(claims.find(({ id }) => id === "curve/refusal_cost")?.verdict).toBe("pass");
  });

  test.each([
    ["constant", 15, 1],
    ["lognormal", 8, 2],
    ["lognormal", 8, 6],
    ["lognormal", 15, 1],
  ] as const)("a limiter that measures again and again: %s times, every %i s, seed %i", (service, everyS, seed) => {
    const server = gradient({ slots: 64, serviceMs: 800, service, everyS, seed });
    const claims = claimsOf(curveOf(server, seed, SHORT_S)).filter(({ level }) => level === "must");
    expect(failedOf(claims)).toEqual([]);
    expect(claims.map(({ reason }) => reason).join()).toMatch(/capacity moved|low for a while/);
  });

  test("a limit that falls while a queue is served: what is served, not what is let in, is the goodput", () => {
    const double = levelsOf(upAndDown(4, LONG_S)).find(({ ratePerS }) => ratePerS === 8) as PlannedLevel;
    const server = queueing(
      { slots: 8, inFlight: 0, serviceMs: 2_000, service: "constant" },
      { limit: ({ atUs }) => (atUs > START_US + double.fromUs && atUs < START_US + double.toUs ? 12 : 70) },
    );
    expect(failedOf(claimsOf(curveOf(server, 1, LONG_S, undefined, 4))).join()).not.toContain("goodput_retention");
  });

  test("few calls whose median may be as before it", () => {
    const curve = sixteenSlots(LONG_S);
    const slower = (spread: number): string => {
      const levels = curve.levels.map((level): Curve["levels"][number] => {
        if (level.pass !== "down") return level;
        const p50 = 2.5 * (level.stayMs.p50 ?? 0) + 60;
        const stayMedianMs = { value: p50, low: p50 * (1 - spread), high: p50 * (1 + spread) };
        return { ...level, stayMs: { ...level.stayMs, p50 }, stayMedianMs };
      });
      return failedOf(claimsOf({ ...curve, levels, patient: null })).join();
    };
    expect(slower(0.6)).toBe("");
    expect(slower(0.05)).toContain("latency has not come back");
  });

  test("nor where the generator starts late; what fails beside such calls is left open", () => {
    const late = (atS: number): number => Math.max(0, 2 - atS) * 1e6;
    const make = HONEST["exponential times"] as (seed: number, lastsS: number) => Server;
    expect(failedOf(claimsOf(curveOf(make(1, SHORT_S), 1, SHORT_S, late)))).toEqual([]);
    const [claim, collapses] = FAULTY["collapses from 1.5 times on"] as (typeof FAULTY)[string];
    const lateAbove = (atS: number): number => (atS > 70 && atS < 200 ? 0.5e6 : 0);
    const claims = claimsOf(curveOf(collapses(1), 1, LONG_S, lateAbove));
    expect(claims.find(({ id }) => id === `curve/${claim}`)).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("calls left late"),
    });
  });
});

describe("a ramp before the curve is the first overload", () => {
  test.each(Object.keys(HONEST))("%s, accused of nothing", (name) => {
    const make = HONEST[name] as (seed: number, lastsS: number) => Server;
    expect(failedOf(claimsAfterRamp(make(4, SHORT_S), 4, SHORT_S))).toEqual([]);
  });

  test("a bucket of tokens that serves the ramp from what it has saved up is accused of nothing", () => {
    const shape = { by: "429 b2b_overloaded", service: "exponential" } as const;
    const bucket = (): Server => rateLimited(KNEE_PER_S, 10 * KNEE_PER_S, 200, shape);
    const cameBack = claimsAfterRamp(bucket(), 1, LONG_S).find(({ id }) => id === "curve/metastability");
    expect(cameBack).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("capacity may be lost"),
    });
  });

  test("a limit that moves around half from then on may adapt, unless limits are stated as fixed", () => {
    const make = spoilt((refused) => ({ limit: ({ atS }) => (refused() > 100 ? 5 + (Math.floor(atS) % 6) : 16) }));
    const cameBack = (facts: Partial<StageFacts>): Claim | undefined =>
      claimsAfterRamp(make(), 1, LONG_S, facts).find(({ id }) => id === "curve/metastability");
    expect(cameBack({})).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("state `shedding: fixed`"),
    });
    expect(cameBack({ shedding: "fixed" })).toMatchObject({ verdict: "fail" });
    const steady = claimsAfterRamp(queueing(SHAPE), 1, LONG_S, { shedding: "fixed" });
    expect(failedOf(steady)).toEqual([]);
  });

  const SHAPE = { slots: 16, inFlight: 16, serviceMs: 200 };
  const spoilt =
    (habits: (refused: () => number) => Parameters<typeof queueing>[1], shape = SHAPE) =>
    (): Server => {
      let refused = 0;
      return queueing(shape, {
        refused: () => {
          refused += 1;
        },
        ...habits(() => refused),
      });
    };

  test.each([
    ["half of the slots gone from then on", spoilt((refused) => ({ limit: () => (refused() > 100 ? 8 : 16) }))],
    ["slower from then on", spoilt((refused) => ({ slower: () => (refused() > 200 ? 4 : 1) }))],
    [
      "three quarters of the slots gone from then on",
      spoilt((refused) => ({ limit: () => (refused() > 100 ? 4 : 16) })),
    ],
    ["slots that leak until most are gone", spoilt((refused) => ({ limit: () => 16 - Math.min(12, refused() / 300) }))],
    ["slots that leak until none is left", spoilt((refused) => ({ limit: () => 16 - refused() / 1_000 }))],
    [
      "calls of two seconds that are slower from then on",
      spoilt((refused) => ({ slower: () => (refused() > 200 ? 4 : 1) }), {
        slots: 160,
        inFlight: 160,
        serviceMs: 2_000,
      }),
    ],
  ])("%s: the state before it has not come back", (_name, make) => {
    expect(failedOf(claimsAfterRamp(make(), 1, LONG_S)).join()).toContain("curve/metastability");
  });
});

describe("a deployment of six calls a second", () => {
  const shape = { slots: 12, inFlight: 12, serviceMs: 2_000 };
  const seeds = [1, 2, 3, 4];

  test("that loses half of its slots under overload fails, also where its knees are too wide to differ", () => {
    const failing = seeds.filter((seed) => {
      let refused = 0;
      const server = queueing(
        { ...shape, seed },
        {
          refused: () => {
            refused += 1;
          },
          limit: () => (refused > 240 ? 6 : 12),
        },
      );
      return failedOf(claimsOf(curveOf(server, seed, LONG_S, undefined, 6)))
        .join()
        .includes("curve/metastability");
    });
    expect(failing.length).toBeGreaterThanOrEqual(3);
  });

  test("that loses a quarter of them does not pass where its intervals leave it open", () => {
    const verdicts = [7, 10, 11, 22].map((seed) => {
      let refused = 0;
      const server = queueing(
        { ...shape, seed },
        {
          refused: () => {
            refused += 1;
          },
          limit: () => (refused > 240 ? 9 : 12),
        },
      );
      const claims = claimsOf(curveOf(server, seed, 240, undefined, 6));
      return claims.find(({ id }) => id === "curve/metastability")?.verdict;
    });
    expect(verdicts).not.toContain("pass");
  });

  test("whose limit is low twice after the overload, and rises in between, has lost nothing for certain", () => {
    const planned = levelsOf(upAndDown(6, LONG_S));
    const isLow = (atUs: number): boolean =>
      planned.some(
        ({ pass, ratePerS, fromUs, toUs }) =>
          (pass === "after" || (pass === "down" && ratePerS >= 6)) &&
          atUs - START_US >= fromUs &&
          atUs - START_US < toUs,
      );
    for (const seed of [4, 5]) {
      const server = queueing({ ...shape, seed }, { limit: ({ atUs }) => (isLow(atUs) ? 3 : 12) });
      const curve = curveOf(server, seed, LONG_S, undefined, 6);
      expect(failedOf(claimsOf(curve))).toEqual([]);
      expect(failedOf(claimsOf(curve, { shedding: "fixed" })).join()).toContain("curve/metastability");
    }
  });

  test("that keeps its goodput passes", () => {
    const verdicts = seeds.map((seed) => {
      const claims = claimsOf(curveOf(queueing({ ...shape, seed }), seed, LONG_S, undefined, 6));
      expect(failedOf(claims)).toEqual([]);
      return claims.find(({ id }) => id === "curve/goodput_retention")?.verdict;
    });
    expect(verdicts).toEqual(seeds.map(() => "pass"));
  });
});

test("sheds at random from a quarter of the slots on are false where one replica is stated, and many small ones may explain them elsewhere", () => {
  const profile = upAndDown(KNEE_PER_S, LONG_S);
  const verdictsOf = (replicas?: number) =>
    [1, 2, 3].map((seed) => {
      const early = queueing(
        { slots: 16, inFlight: 16, serviceMs: 200, service: "constant", seed },
        { limit: ({ inFlight, i }) => (uniform(9, i, 83) < (inFlight / 16 - 0.25) / 0.75 ? 0 : 16) },
      );
      const fold = openCurve({ stage: STAGE, planned: levelsOf(profile), replicas });
      for (const line of playRamp(early, profile, seed, { stage: STAGE })) fold.see(line);
      return claimsOf(fold.end(START_US) as Curve).find(({ id }) => id === "curve/false_sheds")?.verdict;
    });
  expect(verdictsOf(1)).toEqual(["fail", "fail", "fail"]);
  expect(verdictsOf()).not.toContain("pass");
});

test("few sheds beside free places are no pass, though chance may explain as many of full slots", () => {
  const verdicts = [1, 6, 11, 12].map((seed) => {
    const shape = { slots: 12, inFlight: 12, serviceMs: 2_000, seed };
    const oneInTwenty = queueing(shape, { limit: ({ i }) => (uniform(5, i, 81 + seed) < 0.05 ? 0 : 12) });
    const claims = claimsOf(curveOf(oneInTwenty, seed, 240, undefined, 6));
    return claims.find(({ id }) => id === "curve/false_sheds")?.verdict;
  });
  expect(verdicts).toEqual(verdicts.map(() => "inconclusive"));
});

test("half of the knee is that of the way up before the overload, and that of the way down after it", () => {
  const curve = curveOf(queueing({ slots: 64, inFlight: 64, serviceMs: 800 }), 1, LONG_S);
  const { before } = curve.knee as { before: Estimate };
  const levels = curve.levels.filter(({ pass, ratePerS }) => pass === "up" || ratePerS < 0.45 * KNEE_PER_S);
  const after = { value: before.value / 4, low: before.low / 4, high: before.high / 4 };
  expect(levelsBelow({ ...curve, levels, knee: { before, after, overall: before } }, 0.5)).toMatchObject([
    { pass: "up", ratePerS: 0.5 * KNEE_PER_S },
  ]);
});

test("where the knee is as before and a level carries more on the way down, that is what is said to have moved", () => {
  const curve = sixteenSlots(LONG_S);
  const half = ({ value, low, high }: Estimate): Estimate => ({ value: value / 2, low: low / 2, high: high / 2 });
  const levels = curve.levels.map((level) =>
    level.pass !== "down" && level.ratePerS > KNEE_PER_S ? { ...level, goodputPerS: half(level.goodputPerS) } : level,
  );
  const { before } = curve.knee;
  const claims = claimsOf({ ...curve, levels, knee: { before, after: before, overall: before } });
  const told = claims.map(({ reason }) => reason).find((reason) => reason.includes("capacity moved"));
  expect(told).toMatch(
    /capacity moved .*: of [\d.]+\/s, [\d.]+\/s was served well on the way up and [\d.]+\/s on the way down/,
  );
});

test("a level that carries more on the way down takes nothing from a pass, and one that carries less afterwards does", () => {
  const curve = sixteenSlots(LONG_S);
  const verdictWith = (times: number, passes: string): Claim["verdict"] | undefined => {
    const levels = curve.levels.map((level) => {
      const value = times * level.goodputPerS.value;
      const goodputPerS = { value, low: 0.99 * value, high: 1.01 * value };
      return level.pass === passes && level.ratePerS > KNEE_PER_S ? { ...level, goodputPerS } : level;
    });
    const claims = claimsOf({ ...curve, levels });
    return claims.find(({ id }) => id === "curve/goodput_retention")?.verdict;
  };
  expect([verdictWith(1, "down"), verdictWith(1.1, "down"), verdictWith(0.6, "after")]).toEqual([
    "pass",
    "pass",
    "inconclusive",
  ]);
});

test("where calls outlast a level, the claims say how many times as long to play it, and what the ramp lost is lost", () => {
  const curve = sixteenSlots(SHORT_S);
  const warmUp = { seconds: 0.05, isCut: true };
  for (const id of ["curve/metastability", "curve/goodput_retention"]) {
    const claim = claimsOf({ ...curve, warmUp }).find((one) => one.id === id);
    expect(claim).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringMatching(/play it [45] times as long/),
    });
  }
  const ramp = [{ rate_per_s: 3 * KNEE_PER_S, stay_ms: { value: 200, low: 190, high: 210 } }];
  const lost = claimsOf({ ...curve, warmUp }, { curve: { not_played: [], ramp } });
  expect(failedOf(lost).join()).toContain("curve/metastability");
});

test("the cost of a refusal passes only where its interval leaves out twice what is allowed", () => {
  const curve = sixteenSlots(SHORT_S);
  const kneePerS = curve.knee.overall?.value as number;
  const verdictOf = (price: number, half: number): string | undefined => {
    const levels = curve.levels.map((level): Curve["levels"][number] => {
      const times = Math.max(1, level.ratePerS / kneePerS);
      const value = carriedPerS(curve.models[0] as LossSystem, level.ratePerS) * ((1 - price * times) / (1 - price));
      return { ...level, goodputPerS: { value, low: value - half * kneePerS, high: value + half * kneePerS } };
    });
    return claimsOf({ ...curve, levels, patient: null }).find(({ id }) => id === "curve/refusal_cost")?.verdict;
  };
  expect([verdictOf(0, 0.1), verdictOf(0.04, 0.3), verdictOf(0.04, 0.8)]).toEqual(["pass", "pass", "inconclusive"]);
  expect([verdictOf(0.07, 0.3), verdictOf(0.09, 0.1)]).toEqual(["inconclusive", "fail"]);
});

test("a loss has to exceed what levels vary by beyond their batches", () => {
  const curve = sixteenSlots(SHORT_S);
  const kneePerS = curve.knee.overall?.value as number;
  const verdictOf = (left: number, half: number): string | undefined => {
    const levels = curve.levels.map((level): Curve["levels"][number] => {
      const value = Math.min(level.ratePerS, kneePerS) * (level.pass === "up" ? 1 : left);
      return { ...level, goodputPerS: { value, low: value - half * kneePerS, high: value + half * kneePerS } };
    });
    return claimsOf({ ...curve, levels, patient: null }).find(({ id }) => id === "curve/metastability")?.verdict;
  };
  expect([verdictOf(0.8, 0.03), verdictOf(0.8, 0.15)]).toEqual(["fail", "pass"]);
});

test("goodput that rises with the load shows no price of a refusal", () => {
  const curve = sixteenSlots(SHORT_S);
  const levels = curve.levels.map((level) => ({
    ...level,
    goodputPerS: { value: level.ratePerS, low: 0.5 * level.ratePerS, high: 1.5 * level.ratePerS },
  }));
  const price = refusalPriceOf({ ...curve, levels }) as Estimate;
  expect(price.low).toBeLessThanOrEqual(price.value);
  expect(price.value).toBeLessThan(0);
});

test("levels that may lie below the knee show no price of a refusal", () => {
  const curve = sixteenSlots(SHORT_S);
  const overall = { ...(curve.knee.overall as Estimate), high: 9 * KNEE_PER_S };
  expect(refusalPriceOf({ ...curve, knee: { ...curve.knee, overall } }, true)).toBeNull();
});

test("the interval of a goodput has a width, also where two batches count the same", () => {
  for (let seed = 1; seed <= 12; seed++) {
    const server = queueing({ slots: 160, inFlight: 160, serviceMs: 2_000, service: "constant", seed });
    const wide = curveOf(server, seed, SHORT_S).levels.filter(({ goodputPerS: { value } }) => value > 0);
    for (const { goodputPerS, judgedS } of wide)
      expect(goodputPerS.high - goodputPerS.value).toBeGreaterThan(0.9 * Math.sqrt(goodputPerS.value / judgedS));
  }
});

test("where nothing is refused past the knee, the time of refusals is skipped", () => {
  const curve = curveOf(queueing({ slots: 16, inFlight: 1_000_000, serviceMs: 200 }), 1, SHORT_S);
  expect(claimsOf(curve).find(({ id }) => id === "curve/refusal_time")).toMatchObject({
    verdict: "skipped",
    reason: expect.stringContaining("20 refusals"),
  });
});

test("a busy host explains no refusals that take longer than the calls served beside them", () => {
  const [, make] = FAULTY["refuses after a second"] as (typeof FAULTY)[string];
  const host = { ...CALM, other_cores: 2 };
  expect(failedOf(claimsOf(curveOf(make(1), 1, LONG_S), { host })).join()).toContain("curve/refusal_time");
  const [, collapses] = FAULTY["collapses from 1.5 times on"] as (typeof FAULTY)[string];
  expect(failedOf(claimsOf(curveOf(collapses(1), 1, LONG_S), { host }))).toEqual([]);
});

test("where some served calls wait as long as refused ones, a queue that does not serve in order of arrival may explain it", () => {
  const [, make] = FAULTY["refuses after a second"] as (typeof FAULTY)[string];
  const curve = curveOf(make(1), 1, LONG_S);
  const levels = curve.levels.map((level) =>
    level.ratePerS < KNEE_PER_S
      ? level
      : { ...level, firstEventMs: { ...level.firstEventMs, p99: level.refusalMs.p50 } },
  );
  const verdictOf = (one: typeof curve) => claimsOf(one).find(({ id }) => id === "curve/refusal_time")?.verdict;
  expect([verdictOf(curve), verdictOf({ ...curve, levels })]).toEqual(["fail", "inconclusive"]);
});

test("a figure that few calls leave open says what would settle it", () => {
  const reasonsOf = (kneePerS: number): string[] => {
    const server = queueing({ slots: 16, inFlight: 16, serviceMs: 200 });
    return claimsOf(curveOf(server, 1, 30, undefined, kneePerS)).map(({ reason }) => reason);
  };
  expect(reasonsOf(KNEE_PER_S).join("\n")).toMatch(/so play it \d+ times as long \(`--duration`\)/);
  expect(reasonsOf(2.5 * KNEE_PER_S).join("\n")).toMatch(/`load shedding-curve --rate [78]\d` plays levels/);
});

test("a level that left late and changes nothing leaves the claims as they are", () => {
  const late = (atS: number): number => (atS > 150 && atS < 152 ? 0.3e6 : 0);
  const curve = curveOf(queueing({ slots: 64, inFlight: 64, serviceMs: 800 }), 1, LONG_S, late);
  expect(curve.levels.filter(({ lagMs }) => (lagMs ?? 0) > 200).length).toBeGreaterThan(0);
  const goodput = claimsOf(curve).find(({ id }) => id === "curve/goodput_retention");
  expect(goodput).toMatchObject({ verdict: "pass" });
});

test("a server that sheds at half of its stated slots sheds below half of the knee that they give", () => {
  const profile = upAndDown(KNEE_PER_S, LONG_S);
  const fold = openCurve({ stage: STAGE, planned: levelsOf(profile), closedForm: { slots: 64, replicas: 1 } });
  const server = queueing({ slots: 32, inFlight: 32, serviceMs: 800 });
  for (const line of playRamp(server, profile, 1, { stage: STAGE, organizations: ORGANIZATIONS })) fold.see(line);
  const claims = claimsOf(fold.end(START_US) as Curve, { shedding: "fixed" });
  expect(failedOf(claims)).toEqual(expect.arrayContaining([expect.stringContaining("curve/false_sheds")]));
});

test("few sheds that chance may explain pass where each is judged by itself, and are left open elsewhere", () => {
  const [profile, seed] = [upAndDown(80, 120, 800, 0.3), 18];
  const lines = playRamp(
    queueing({ slots: 24, inFlight: 24, serviceMs: 300, service: "constant", seed }),
    profile,
    seed,
    {
      stage: STAGE,
    },
  );
  const verdictOf = (facts: Pick<StageFacts, "shedding">, closedForm: Curve["closedForm"]) => {
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile), closedForm });
    for (const line of lines) fold.see(line);
    return claimsOf(fold.end(START_US) as Curve, facts).find(({ id }) => id === "curve/false_sheds")?.verdict;
  };
  expect(verdictOf({ shedding: "fixed" }, { slots: 24, replicas: 1 })).toBe("pass");
  expect(verdictOf({ shedding: "adaptive" }, null)).toBe("inconclusive");
});

test("where no objective is stated, lateness alone leaves a claim open, and a failure has to stand for the most patient caller", () => {
  // At the knee 40 calls share what serves eight, so each takes five times as long as a calm one.
  const sharing = queueing(
    { slots: 40, inFlight: 40, serviceMs: 100, service: "constant" },
    { slower: ({ inFlight }) => Math.max(1, inFlight / 8) },
  );
  const claims = claimsOf(curveOf(sharing, 1, LONG_S));
  expect(failedOf(claims)).toEqual([]);
  expect(claims.find(({ id }) => id === "curve/goodput_retention")).toMatchObject({
    verdict: "inconclusive",
    reason: expect.stringContaining("no objective is stated"),
  });
});

test("where the knee is lower than was thought, the lowest level lies below half of it, or shows it by shedding nothing", () => {
  const verdictOf = (sheds: number, times: number): string | undefined => {
    const profile = upAndDown(times * KNEE_PER_S, LONG_S, undefined, undefined, LOWEST_IF_GUESSED);
    const server = queueing({ slots: 64, inFlight: 64, serviceMs: 800 });
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile) });
    const [lowest, ...others] = levelsOf(profile);
    const plays = [lowest, ...others.filter(({ ratePerS }) => ratePerS === lowest?.ratePerS)];
    for (const line of playRamp(server, profile, 1, { stage: STAGE, organizations: ORGANIZATIONS })) {
      const sinceUs = line.intended_us - START_US;
      const isLowest = plays.some((level) => level && sinceUs >= level.fromUs && sinceUs < level.toUs);
      const isSpoilt = isLowest && uniform(3, line.intended_us, 1) < sheds;
      fold.see(isSpoilt ? { ...line, outcome: "429 b2b_overloaded" } : line);
    }
    return claimsOf(fold.end(START_US) as Curve).find(({ id }) => id === "curve/false_sheds")?.verdict;
  };
  expect([verdictOf(0, 1.3), verdictOf(0.2, 1.3)]).toEqual(["pass", "fail"]);
  expect([verdictOf(0, 1.6), verdictOf(0.2, 1.6)]).toEqual(["pass", "inconclusive"]);
});

test("a server of fixed slots passes, and its knee is its slots over their time", () => {
  const curve = curveOf(queueing({ slots: 64, inFlight: 64, serviceMs: 800, service: "constant" }), 1, LONG_S);
  const claims = claimsOf(curve, { shedding: "fixed" });
  const verdicts = Object.fromEntries(claims.map(({ id, verdict }) => [id.replace("curve/", ""), verdict]));
  expect(verdicts).toMatchObject({
    ...{ shed_subcodes: "pass", goodput_retention: "pass", collapse: "pass", goodput_retention_2: "pass" },
    ...{ goodput_retention_5: "pass", metastability: "pass", false_sheds: "pass", refusal_price: "pass" },
    ...{ wasted_work: "pass", jain_index: "pass", oscillation: "pass", slots_leaked: "skipped" },
  });
  expect((curve.knee.overall?.value as number) / KNEE_PER_S).toBeCloseTo(1, 1);
  // The levels of both ways know it better than those of one.
  const widthOf = (knee: Estimate | null): number => (knee === null ? Number.NaN : knee.high - knee.low);
  expect(widthOf(curve.knee.overall)).toBeLessThan(widthOf(curve.knee.before));
});

describe("a server that breaks under overload fails the claim about it", () => {
  test.each(Object.keys(FAULTY))("%s", (name) => {
    const [claim, make] = FAULTY[name] as (typeof FAULTY)[string];
    for (const seed of [1, 2]) {
      const claims = claimsOf(curveOf(make(seed), seed, LONG_S));
      expect(failedOf(claims).join("\n"), `seed ${seed}`).toContain(`curve/${claim}:`);
    }
  });

  test("and one that serves nobody past its knee, also where the highest multiples are not permitted", () => {
    const planned = levelsOf(upAndDown(KNEE_PER_S, LONG_S));
    const isPastRate = (ratePerS: number): boolean => ratePerS > KNEE_PER_S;
    const isPast = (atUs: number): boolean =>
      planned.some(({ fromUs, toUs, ratePerS }) => {
        const sinceUs = atUs - START_US;
        return isPastRate(ratePerS) && sinceUs >= fromUs && sinceUs < toUs;
      });
    const server = queueing(
      { slots: 16, inFlight: 16, serviceMs: 200 },
      { limit: ({ atUs }) => (isPast(atUs) ? 0 : 16) },
    );
    const curve = curveOf(server, 1, LONG_S);
    expect(failedOf(claimsOf({ ...curve, notPlayed: [10] })).join()).toContain("curve/collapse");
  });

  test("and refusals at a sixth of a call in a short play, by the levels of both ways", () => {
    const shape = { slots: 16, inFlight: 16, serviceMs: 200, seed: 2 };
    const holding = queueing(shape, { refused: ({ atUs }, pool) => pool.hold(atUs + 32_000) });
    expect(failedOf(claimsOf(curveOf(holding, 2, 40))).join()).toContain("curve/refusal_cost");
    expect(failedOf(claimsOf(curveOf(queueing(shape), 2, 40)))).toEqual([]);
  });

  test("and one call in twenty shed, in a short play as far as four times the knee", () => {
    const profile = upAndDown(KNEE_PER_S, SHORT_S, 4 * KNEE_PER_S);
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile), notPlayed: [5, 10] });
    const [claim, make] = FAULTY["sheds one in twenty"] as (typeof FAULTY)[string];
    for (const line of playRamp(make(1), profile, 1, { stage: STAGE })) fold.see(line);
    expect(failedOf(claimsOf(fold.end(START_US) as Curve)).join()).toContain(`curve/${claim}`);
  });

  test("and a collapse that lasts, as a state that has not come back: the capacity it left is another", () => {
    const losing = (left: number): Server => {
      let refused = 0;
      return queueing(
        { slots: 64, inFlight: 64, serviceMs: 800 },
        {
          refused: () => {
            refused += 1;
          },
          limit: () => (refused > 1_500 ? left : 64),
        },
      );
    };
    const claims = claimsOf(curveOf(losing(8), 1, LONG_S));
    expect(failedOf(claims).join()).toContain("curve/metastability");
    expect(claims.find(({ id }) => id === "curve/collapse")).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("capacity moved"),
    });
  });

  test.each([
    ["a queue of twenty times the slots, at three times the knee", 3, { inFlight: 320 }, {}],
    ["refusals at a quarter of a call, at seven times the knee", 7, { service: "constant" }, { price: 1 / 4 }],
  ] as const)(
    "and %s, where higher multiples are not permitted",
    (_name, times, more, { price = 0 }: { price?: number }) => {
      for (const seed of [1, 2]) {
        const shape = { slots: 16, inFlight: 16, serviceMs: 200, seed, ...more };
        const profile = upAndDown(KNEE_PER_S, LONG_S, times * KNEE_PER_S);
        const fold = openCurve({ stage: STAGE, planned: levelsOf(profile), notPlayed: [5, 10] });
        const server = queueing(shape, { refused: ({ atUs }, pool) => pool.burn(atUs, price * 200_000) });
        for (const line of playRamp(server, profile, seed, { stage: STAGE })) fold.see(line);
        expect(failedOf(claimsOf(fold.end(START_US) as Curve)).join(), `seed ${seed}`).toContain("curve/collapse");
      }
    },
  );

  test("but not above ten times the knee, where that is lower than was thought", () => {
    const server = queueing(
      { slots: 16, inFlight: 16, serviceMs: 200, service: "constant" },
      { refused: ({ atUs }, pool) => pool.burn(atUs, 0.055 * 200_000) },
    );
    const claims = claimsOf(curveOf(server, 1, LONG_S, undefined, 1.6 * KNEE_PER_S));
    expect(claims.find(({ id }) => id === "curve/collapse")?.verdict).not.toBe("fail");
  });

  test("and one that serves nobody after the overload, where its knee lies below every level", () => {
    const cameBack = (leftAfter: number): Claim | undefined => {
      let refused = 0;
      const server = queueing(
        { slots: 16, inFlight: 16, serviceMs: 200 },
        {
          refused: () => {
            refused += 1;
          },
          limit: () => (refused > 3_000 ? leftAfter : 16),
        },
      );
      const claims = claimsOf(curveOf(server, 1, LONG_S, undefined, 2 * KNEE_PER_S));
      return claims.find(({ id }) => id === "curve/metastability");
    };
    expect(cameBack(0)).toMatchObject({
      verdict: "fail",
      reason: expect.stringContaining("goodput has not come back"),
    });
    expect(cameBack(16)).toMatchObject({ verdict: "inconclusive" });
  });

  test("also where the capacity has moved, if it fails on the way up and on the way down alike", () => {
    const [claim, make] = FAULTY["collapses from 1.5 times on"] as (typeof FAULTY)[string];
    const curve = curveOf(make(1), 1, LONG_S);
    const served = (...passes: readonly string[]): Claim | undefined => {
      const levels = curve.levels.map((level) => {
        const value = Math.min(level.ratePerS, KNEE_PER_S);
        const goodputPerS = { value, low: 0.95 * value, high: 1.05 * value };
        return passes.includes(level.pass) ? { ...level, goodputPerS } : level;
      });
      return claimsOf({ ...curve, levels }).find(({ id }) => id === `curve/${claim}`);
    };
    expect(served("after")).toMatchObject({ verdict: "fail" });
    expect(served("after", "down")).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("capacity moved"),
    });
  });

  test("and a state that is lost before the last level alone has not come back for certain", () => {
    const last = levelsOf(upAndDown(KNEE_PER_S, LONG_S)).findLast(({ pass }) => pass === "down") as PlannedLevel;
    const slows = (fromS: number): Server =>
      queueing({ slots: 16, inFlight: 16, serviceMs: 200 }, { slower: ({ atS }) => (atS > fromS ? 4 : 1) });
    const cameBack = (server: Server) =>
      claimsOf(curveOf(server, 1, LONG_S)).find(({ id }) => id === "curve/metastability")?.verdict;
    expect(cameBack(slows(last.fromUs / 1e6))).toBe("inconclusive");
    expect(cameBack(slows(Number.POSITIVE_INFINITY))).toBe("pass");
  });

  test("but not where other callers may explain it, nor where an edge answers", () => {
    const [claim, make] = FAULTY["collapses from 1.5 times on"] as (typeof FAULTY)[string];
    const curve = curveOf(make(1), 1, LONG_S);
    expect(failedOf(claimsOf(curve, { exclusive: false })).join(), "the same before and after").toContain(claim);
    const { before } = curve.knee;
    const after = before && { value: before.value / 2, low: before.low / 2, high: before.high / 2 };
    const moved = claimsOf({ ...curve, knee: { before, after, overall: before } }, { exclusive: false });
    expect(failedOf(moved)).toEqual([]);
    expect(moved.find(({ id }) => id === `curve/${claim}`)?.reason).toContain("other callers");
    const edge = curve.levels.map((level) => ({ ...level, failed: { "edge 503": Math.ceil(level.offered / 10) } }));
    expect(failedOf(claimsOf({ ...curve, levels: edge }))).toEqual([]);
  });

  test("slots that were not given back, by the gauges", () => {
    const curve = sixteenSlots(SHORT_S);
    const gauge = (inFlight: number) => [{ in_flight: inFlight, in_flight_by_org: {} }];
    const facts = { drained: true, gauges_before: gauge(1) };
    expect(failedOf(claimsOf(curve, { ...facts, gauges: gauge(3) })).join()).toContain("curve/slots_leaked");
    expect(failedOf(claimsOf(curve, { ...facts, gauges: gauge(1) }))).toEqual([]);
    expect(failedOf(claimsOf(curve, { ...facts, gauges: gauge(3), drained: false }))).toEqual([]);
    const measured = (given: Partial<StageFacts>) =>
      judgeCurve(curve, { ...bareFacts("curve"), ...given }, "-").measurements.find(
        ({ name }) => name === "slots_leaked",
      );
    expect(measured({ ...facts, gauges: gauge(3) })).toMatchObject({ value: 2, unit: "1", n: 1 });
    expect(measured({ ...facts, gauges: gauge(3), drained: false })).toBeUndefined();
    expect(measured({ drained: true })).toBeUndefined();
  });
});

test("sheds that are more than chance explains, and none of them beside free places, are no proof of false ones", () => {
  const curve = sixteenSlots(LONG_S);
  const levels = curve.levels.map((level): Curve["levels"][number] => {
    if (level.ratePerS > 0.6 * KNEE_PER_S || level.room === null) return level;
    const { free, taken } = level.room;
    const room = { free: { ...free, shed: 0, withRoom: 0 }, taken: { ...taken, shed: 40 } };
    return { ...level, room, shedShare: { value: 0.05, low: 0.04, high: 0.06 } };
  });
  const shedding = { ...curve, levels, models: [{ perS: KNEE_PER_S, slots: 16, places: 16, replicas: 1 }] };
  const falseSheds = claimsOf(shedding).find(({ id }) => id === "curve/false_sheds");
  expect(falseSheds).toMatchObject({ verdict: "inconclusive", reason: expect.stringContaining("as of a limit") });
});

test("two replicas excuse their sheds at a low load, and none that come while the last places are nearly always given", () => {
  const models = [1, 2].map((replicas) => ({ perS: KNEE_PER_S, slots: 16, places: 16, replicas }));
  const falseSheds = (server: Server) =>
    claimsOf({ ...curveOf(server, 1, 2 * SHORT_S), models }).find(({ id }) => id === "curve/false_sheds")?.verdict;
  const each = { slots: 8, inFlight: 8, serviceMs: 200 };
  expect(falseSheds(replicated({ ...each, seed: 1 }, [1, 1]))).toBe("pass");
  const hundredth = queueing(
    { slots: 16, inFlight: 16, serviceMs: 200 },
    { limit: ({ i }) => (uniform(5, i, 81) < 0.01 ? 0 : 16) },
  );
  expect(falseSheds(hundredth)).toBe("inconclusive");
});

test("sheds by the number in flight, as of many small replicas or of a limit that adapts, name all that is to be stated", () => {
  const halfOfTheTime = queueing(
    { slots: 16, inFlight: 16, serviceMs: 200 },
    { limit: ({ atS }) => (Math.floor(atS) % 2 === 1 ? 4 : 16) },
  );
  const claims = claimsOf(curveOf(halfOfTheTime, 1, LONG_S, undefined, 45));
  const falseSheds = claims.find(({ id }) => id === "curve/false_sheds");
  expect(falseSheds?.reason).toMatch(/state `limits.replicas`, and `shedding: fixed` if no limit adapts/);
});

test("a calm level that serves all of its calls shows no capacity that moved, whatever number of calls came", () => {
  const curve = sixteenSlots(LONG_S);
  const [lowestPerS] = curve.levels.map(({ ratePerS }) => ratePerS);
  const levels = curve.levels.map((level): Curve["levels"][number] => {
    const value = level.ratePerS * (level.pass === "up" ? 0.8 : 1.2);
    const goodputPerS = { value, low: 0.9 * value, high: 1.1 * value };
    return level.ratePerS === lowestPerS ? { ...level, good: level.offered, goodputPerS } : level;
  });
  expect(claimsOf({ ...curve, levels }).filter(({ reason }) => reason.includes("capacity moved"))).toEqual([]);
});

test("hysteresis and excess sheds tell a server that forgives a rush late, and one that sheds early, from a healthy one", () => {
  const measure = (server: Server, name: string) => {
    const curve = curveOf(server, 1, LONG_S);
    const { claims, measurements } = judgeCurve(curve, { ...bareFacts(STAGE), exclusive: true }, "-");
    const { low = 0, high = 0 } = measurements.find((one) => one.name === name) ?? {};
    return { verdict: claims.find(({ id }) => id === `curve/${name}`)?.verdict, low: low ?? 0, high: high ?? 1 };
  };
  let [refused, served] = [0, 0];
  const forgivesLate = queueing(
    { slots: 16, inFlight: 16, serviceMs: 200 },
    {
      slower: () => {
        served += 1;
        if (served >= 20) refused = 0;
        return refused >= 1_200 ? 1.6 : 1;
      },
      refused: () => {
        refused += 1;
        served = 0;
      },
    },
  );
  const healthy = () => queueing({ slots: 64, inFlight: 64, serviceMs: 800, service: "constant" });
  expect(measure(forgivesLate, "hysteresis").verdict).toBe("fail");
  expect(measure(healthy(), "hysteresis").verdict).toBe("pass");
  const [, early] = FAULTY["sheds early"] as (typeof FAULTY)[string];
  expect(measure(early(1), "excess_sheds").low).toBeGreaterThan(measure(healthy(), "excess_sheds").high);
});

describe("a curve needs", () => {
  const profile = upAndDown(KNEE_PER_S, SHORT_S);
  const lines = playRamp(queueing({ slots: 16, inFlight: 16, serviceMs: 200 }), profile, 1, { stage: STAGE });

  test("every call whole", () => {
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile) });
    for (const line of lines) fold.see(line);
    fold.see({
      ...{ type: "fold", stage: STAGE, driver: "simulated", org: "org_0", outcome: "200", at_us: START_US },
      ...{ offered: 7, started: 7, ended: 7, moments: null, kinds: [], durations: {} },
    });
    expect(fold.end(START_US)).toContain("7 were folded");
  });

  test("answers at the lowest rate", () => {
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile) });
    for (const line of lines.slice(0, 10)) fold.see(line);
    expect(fold.end()).toContain("10 came");
  });

  test("few answers at the lowest rate if the next level has more, as where the knee is higher than was thought", () => {
    for (const seed of [1, 2]) {
      const slow = upAndDown(1.2, LONG_S);
      const fold = openCurve({ stage: STAGE, planned: levelsOf(slow) });
      const server = queueing({ slots: 8, inFlight: 8, serviceMs: 2_000, seed });
      for (const line of playRamp(server, slow, seed, { stage: STAGE })) fold.see(line);
      const curve = fold.end(START_US) as Curve;
      expect(curve.levels[0]?.offered).toBeLessThan(20);
      expect(failedOf(claimsOf(curve))).toEqual([]);
    }
  });

  test("a load that reaches the knee; without one nothing past it is judged", () => {
    const half = upAndDown(KNEE_PER_S, SHORT_S, 1.1 * KNEE_PER_S);
    const server = queueing({ slots: 64, inFlight: 64, serviceMs: 200 });
    const fold = openCurve({ stage: STAGE, planned: levelsOf(half) });
    for (const line of playRamp(server, half, 1, { stage: STAGE })) fold.see(line);
    const curve = fold.end(START_US) as Curve;
    expect(claimsOf(curve).filter(({ verdict }) => verdict === "fail" || verdict === "pass")).toEqual([]);
    const permitted = claimsOf({ ...curve, notPlayed: [2, 3, 5, 10] });
    expect(permitted.find(({ id }) => id === "curve/goodput_retention")).toMatchObject({
      verdict: "skipped",
      reason: expect.stringContaining("permits.load_max_rps"),
    });
  });

  test("a permit for twice the knee, and the number that it takes is told", () => {
    const profile = upAndDown(KNEE_PER_S, LONG_S, 1.6 * KNEE_PER_S);
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile), notPlayed: [2, 3, 5, 10] });
    const server = queueing({ slots: 16, inFlight: 16, serviceMs: 200, service: "constant" });
    for (const line of playRamp(server, profile, 1, { stage: STAGE })) fold.see(line);
    const curve = fold.end(START_US) as Curve;
    const kept = claimsOf(curve).find(({ id }) => id === "curve/goodput_retention");
    const told = Number(/load_max_rps of (\d+)/.exec(kept?.reason ?? "")?.[1]);
    const topPerS = SHARE_OF_PERMIT * TOP_OF_CURVE * told;
    expect(topPerS / (curve.knee.overall?.value ?? 0)).toBeCloseTo(2, 1);
  });

  test("objectives that are stated are kept by single calls", () => {
    const stated = [{ ...P99, limit: 300 }];
    const fold = openCurve({ stage: STAGE, planned: levelsOf(profile), stated });
    for (const line of lines) fold.see(line);
    const curve = fold.end(START_US) as Curve;
    expect(curve.objective).toMatchObject({ stayMs: 300, from: "stated" });
    expect(curve.levels.every(({ late }) => late > 0)).toBe(true);
    const { offered, good, late, shed, failed, aborted } = curve.levels[5] as Curve["levels"][number];
    const all = (counts: Readonly<Record<string, number>>): number =>
      Object.values(counts).reduce((sum, n) => sum + n, 0);
    expect(good + late + all(shed) + all(failed) + aborted).toBe(offered);
  });
});

const P99 = { text: "p99<=300ms", operator: "<=", kind: "time", metric: "p99", of: "answer", quantile: 0.99 } as const;
