import { describe, expect, test } from "vitest";
import { uniform } from "../workload/random.ts";
import { gateCommand, trendsOf } from "./changes.ts";
import { madeNight } from "./nights.fixture.ts";
import type { Night } from "./nights.ts";

const normal = (seed: number, i: number): number =>
  Math.sqrt(-2 * Math.log(1 - uniform(seed, i, 1))) * Math.cos(2 * Math.PI * uniform(seed, i, 2));

const NAME = "steady-mix/latency_ms_p50";
/** Nights of which the median is 100 ms times what `factor` says, with a noise of 2 % unless another is said. */
const nightsBy = (n: number, factor: (day: number) => number, noise: (day: number) => number = () => 0.02): Night[] =>
  Array.from({ length: n }, (_, day) => {
    const value = 100 * factor(day) * Math.exp(noise(day) * normal(7, day));
    return madeNight(day, { measurements: { [NAME]: [value, null, null, 900] } });
  });
const changesIn = (nights: readonly Night[], name = NAME) =>
  trendsOf(nights)?.figures.find((one) => one.name === name)?.changes ?? [];

describe("what must be found", () => {
  test.each([
    ["a step of 5 %", (day: number) => (day < 30 ? 1 : 1.05)],
    ["a step of 10 %", (day: number) => (day < 30 ? 1 : 1.1)],
    ["a step of 20 %, four nights ago", (day: number) => (day < 41 ? 1 : 1.2)],
  ])("%s: when, how much, since which commit", (_what, factor) => {
    const [change, ...more] = changesIn(nightsBy(45, factor));
    expect(more).toEqual([]);
    const first = Array.from({ length: 45 }, (_, day) => day).find((day) => factor(day) !== 1) as number;
    expect(Math.abs((change?.to.seed ?? 0) - first)).toBeLessThanOrEqual(1);
    expect(change?.worseBy).toBeCloseTo(factor(44), 1);
    expect(change?.from.seed).toBe((change?.to.seed ?? 0) - 1);
  });

  test("a drift of half a per cent a night", () => {
    const changes = changesIn(nightsBy(60, (day) => 1.005 ** day));
    expect(changes.length).toBeGreaterThan(0);
    expect(changes.every(({ worseBy }) => worseBy > 1)).toBe(true);
  });

  test("a figure of which lower is worse, and one that got better", () => {
    const of = (day: number): Night["measurements"] => ({
      "curve/goodput_retention": [(day < 20 ? 1 : 0.8) * Math.exp(0.01 * normal(3, day)), null, null, 90],
      "curve/recovery_ms": [(day < 20 ? 900 : 500) * Math.exp(0.02 * normal(4, day)), null, null, 90],
    });
    const nights = Array.from({ length: 40 }, (_, day) => madeNight(day, { measurements: of(day) }));
    expect(changesIn(nights, "curve/goodput_retention")[0]?.worseBy).toBeGreaterThan(1.2);
    expect(changesIn(nights, "curve/recovery_ms")[0]?.worseBy).toBeLessThan(0.7);
  });
});

describe("what must not be found", () => {
  test.each([
    ["nothing", nightsBy(60, () => 1)],
    ["one night of three times the time", nightsBy(60, (day) => (day === 30 ? 3 : 1))],
    ["two nights of twice the time", nightsBy(60, (day) => (day === 30 || day === 31 ? 2 : 1))],
    ["the last two nights", nightsBy(60, (day) => (day > 57 ? 2 : 1))],
    [
      "noise that doubles",
      nightsBy(
        60,
        () => 1,
        (day) => (day < 30 ? 0.02 : 0.04),
      ),
    ],
    [
      "a step of 1 %",
      nightsBy(
        60,
        (day) => (day < 30 ? 1 : 1.01),
        () => 0.0001,
      ),
    ],
    ["a step among too few nights", nightsBy(11, (day) => (day < 6 ? 1 : 2))],
  ])("%s", (_what, nights) => {
    expect(changesIn(nights)).toEqual([]);
  });

  test("steps of a coarse figure that are within its own interval", () => {
    const nights = Array.from({ length: 60 }, (_, day) => {
      const value = uniform(1, day, 5) < 0.1 || (day > 20 && day < 24) ? 600 : 400;
      return madeNight(day, { measurements: { "storm/reaction_ms": [value, 0, value, 90] } });
    });
    expect(changesIn(nights, "storm/reaction_ms")).toEqual([]);
  });

  test("a figure whose direction nobody knows", () => {
    const nights = nightsBy(40, (day) => (day < 20 ? 1 : 2)).map((night) => ({
      ...night,
      measurements: { "steady-mix/retries": night.measurements[NAME] ?? [] },
    }));
    expect(trendsOf(nights)?.figures).toEqual([]);
  });

  /** One false alarm a year at most. The room's page has what sixty figures and other kinds of noise give. */
  test("a year of equal nights, looked at every night", () => {
    const figures = Array.from({ length: 10 }, (_, i) => `stage-${i}/latency_ms_p50`);
    const nights = Array.from({ length: 365 }, (_, day) => {
      const measurements = figures.map((name, i) => [name, [Math.exp(0.05 * normal(i + 50, day)), null, null, 900]]);
      return madeNight(day, { measurements: Object.fromEntries(measurements) });
    });
    const alarms = new Set<string>();
    for (let until = 12; until <= nights.length; until += 1) {
      for (const { name, changes } of trendsOf(nights.slice(Math.max(0, until - 90), until))?.figures ?? []) {
        for (const { to } of changes) alarms.add(`${name} ${to.id}`);
      }
    }
    expect(alarms.size).toBeLessThanOrEqual(1);
  });
});

describe("what is compared", () => {
  const step = (day: number): number => (day < 25 ? 1 : 1.5);
  const changed = (index: (day: number) => Partial<Night>): Night[] =>
    nightsBy(50, step).map((night, day) => ({ ...night, ...index(day) }));

  test("nights of the newest night's profile, target and machine; the others are named", () => {
    const nights = changed((day) => (day < 20 ? { host: { cores: 8, cpu: "EPYC" } } : {}));
    const trends = trendsOf(nights);
    expect(trends?.nights).toHaveLength(30);
    expect(trends?.others).toEqual([expect.stringMatching(/^20 of .*8 cores/)]);
    const all = [
      { profile: "smoke" },
      { target: { name: "staging", embedded: false } },
      { host: { cores: 4, cpu: "Xeon" } },
    ];
    for (const other of all) {
      expect(changesIn(changed((day) => (day < 25 ? other : {}))), JSON.stringify(other)).toEqual([]);
    }
  });

  test("failing, inconclusive and shortened nights are shown with why, and left out", () => {
    const nights = changed((day) => {
      if (day < 25) return {};
      return (
        [{ verdict: "fail" as const }, { verdict: "inconclusive" as const }, { duration_ms: 180_000 }][day % 3] ?? {}
      );
    });
    const trends = trendsOf(nights);
    expect(changesIn(nights)).toEqual([]);
    expect(new Set(trends?.nights.map(({ whyNot }) => whyNot))).toEqual(
      new Set([null, "fail", "inconclusive", "of another length"]),
    );
    expect(trends?.figures[0]?.values).toHaveLength(50);
  });

  test("times at another offered rate are left out; what does not depend on it is not", () => {
    const nights = changed((day) => ({
      measurements: {
        [NAME]: [100 * step(day), null, null, 900],
        "steady-mix/offered_rate": [day < 30 ? 50 : 90, null, null, 900],
        "steady-mix/goodput_retention": [1 / step(day), null, null, 900],
      },
    }));
    expect(changesIn(nights, "steady-mix/goodput_retention")).toHaveLength(1);
    expect(trendsOf(nights)?.figures[0]?.values.filter(({ isCompared }) => isCompared)).toHaveLength(30);
  });
});

test("the gate is named where both commits are known and differ", () => {
  const of = (over: (day: number) => Partial<Night>) => {
    const [change] = changesIn(
      nightsBy(40, (day) => (day < 20 ? 1 : 1.5)).map((one, day) => ({ ...one, ...over(day) })),
    );
    return change === undefined ? "no change" : gateCommand(change);
  };
  expect(of(() => ({}))).toMatch(/^npx floodgate gate --base c0000\d\d\.json --head c0000\d\d\.json$/);
  expect(of(() => ({ commit: "same" }))).toBeNull();
  const external = { target: { name: "staging", embedded: false } };
  expect(of(() => external)).toBeNull();
  expect(of((day) => ({ ...external, deployed: day < 20 ? "v1" : "v2" }))).toContain("--base v1.json --head v2.json");
});
