import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { plannedEmbedded } from "../deployments/tenants.ts";
import { slowedReplayText } from "../report/replayed-log-text.ts";
import { afterScenario, SCENARIOS, scenarioStage, withItsPair } from "../run/suites/suites.ts";
import type { Target } from "../target/target.ts";
import { viewOf } from "../workload/callers/view-of-target.ts";
import { profileDurationS } from "../workload/load-profiles.ts";
import { callsOfCutLog, type LoadStage, plannedFor, planStages, shortened } from "./stage-plan.ts";

const target: Target = {
  schema: "floodgate/target@1",
  base_url: "http://127.0.0.1:1/v1",
  credentials: { server: { key: "env:NOT_READ_HERE" } },
  limits: { global_in_flight: 24 },
};

const folder = mkdtempSync(join(tmpdir(), "planned-load-"));
afterAll(() => rmSync(folder, { recursive: true }));

const view = { ...viewOf(target), capacity: { chat: { perS: 20, by: "429 b2b_overloaded" } } };

const planned = (wish: Parameters<typeof scenarioStage>[1], maxPerS?: number) => {
  const permitted = { ...target, permits: { load_max_rps: maxPerS } };
  const deployment = { target: permitted, embedded: false, found: {} };
  return plannedFor(scenarioStage("chat-past-capacity", wish)!, deployment, view);
};
const reachWith = (wish: Parameters<typeof scenarioStage>[1]) => planned(wish)?.reach;

test("a replayed access log that is busier than is permitted is slowed down, and that is known", () => {
  const of = (maxPerS: number | undefined) => planned({ replayOfMs: [0, 1, 2, 3, 4_000] }, maxPerS);
  expect(of(undefined)?.slowedTo).toBeUndefined();
  expect(of(10)?.slowedTo).toBeUndefined();
  expect(of(2)?.slowedTo).toBeCloseTo(0.45);
  expect(of(2)?.profile.momentsUs?.at(-1)).toBeCloseTo(4e6 / 0.45, 0);
});

test("the plan of a run says that a log is slowed down, as the run does", async () => {
  const targetFile = join(folder, "target.json");
  writeFileSync(targetFile, JSON.stringify({ ...target, permits: { load_max_rps: 2 }, budget: { requests: 100 } }));
  const stage = scenarioStage("catalog-reads", { replayOfMs: [0, 1, 2, 3, 4_000] })!;
  const plan = await planStages({ targetFile, owned: [], stages: { stages: () => [stage], short: false } });
  expect(plan.warnings).toEqual([slowedReplayText(0.45)]);
});

test("a replayed access log needs no ramp where no rate is known", () => {
  const { limits: _, ...unlimited } = target;
  const plan = (wish: Parameters<typeof scenarioStage>[1]) =>
    plannedFor(scenarioStage("chat-past-capacity", wish)!, { target: unlimited, embedded: false, found: {} });
  expect(plan({})).toBeNull();
  expect(plan({ replayOfMs: [0, 400, 1_200] })?.profile.momentsUs).toEqual([0, 400_000, 1_200_000]);
});

test("a replayed access log is played to its end in every scenario, unless a length is stated", () => {
  const minuteMs = Array.from({ length: 61 }, (_, k) => 1000 * k);
  const playedOf = (name: string, wish: object = {}) => {
    const plan = scenarioStage(name, { replayOfMs: minuteMs, ...wish })!;
    const deployment = { target: plannedEmbedded(), embedded: true, found: {} };
    return { calls: plannedFor(plan, deployment)?.profile.momentsUs?.length, cutTo: callsOfCutLog(plan) };
  };
  // A stage with a fault ends when the deployment has recovered.
  const endsByItself = ({ name }: { name: string }) => scenarioStage(name, {})?.disturbance === undefined;
  for (const { name } of SCENARIOS.filter(endsByItself)) {
    expect(playedOf(name), name).toEqual({ calls: 61, cutTo: null });
  }
  expect(playedOf("steady-mix", { durationS: 15 })).toEqual({ calls: 15, cutTo: 15 });
  const short = shortened(scenarioStage("steady-mix", { replayOfMs: minuteMs })!) as LoadStage;
  expect(callsOfCutLog(short)).toBe(13);
});

test("a load profile has the stated length, also where the scenario's own profile would need less", () => {
  const quick = { ...view, limits: { ...view.limits, service_ms: 100 } };
  const lengthOf = (name: string): number | undefined => {
    const plan = scenarioStage(name, { loadProfile: "constant", ratePerS: 300, durationS: 300 })!;
    const found = plannedFor(plan, { target: plannedEmbedded(), embedded: true, found: {} }, quick)?.profile;
    return found === undefined ? undefined : profileDurationS(found);
  };
  for (const { name } of SCENARIOS) expect(lengthOf(name), name).toBeCloseTo(300, 5);
});

test("a replayed access log is replayed in both stages of a comparison", () => {
  const wish = { replayOfMs: [0, 400, 1_200], ratePerS: 3 };
  const [beside, alone] = withItsPair(scenarioStage("noisy-neighbour", wish)!);
  expect(alone).toMatchObject({ isolation: "alone", ...wish, durationS: beside?.durationS });
});

test("readers that left are followed by rules that find lost slots, where no gauges of ours show them", () => {
  const rulesBehind = (name: string, embedded: boolean, permits: Target["permits"]) =>
    afterScenario(scenarioStage(name, {})!, { target: { ...target, permits }, embedded }).map(({ only }) => only);
  const permits = { load_max_rps: 100 };
  expect(rulesBehind("leaving-readers", false, permits)).toEqual([
    ["overload-keeps-the-caps", "slots-come-back", "shedding-ends"],
  ]);
  expect(rulesBehind("leaving-readers", true, permits)).toEqual([]);
  expect(rulesBehind("leaving-readers", false, {})).toEqual([]);
  expect(rulesBehind("slow-readers", false, permits)).toEqual([]);
});

test("a replayed access log owes no shed, and the report says which outcome was not to be expected", () => {
  expect(reachWith({ ratePerS: 60, durationS: 5 })).toMatchObject({ beyond: [] });
  expect(reachWith({ replayOfMs: [0, 400, 1_200] })).toMatchObject({
    all: ["200"],
    oneOf: [],
    beyond: [{ outcome: "429 b2b_overloaded", reason: "the replayed log sets the load" }],
  });
});
