import { expect, test } from "vitest";
import { OUTCOMES } from "../../contract/refusals.ts";
import { plannedEmbedded } from "../../deployments/tenants.ts";
import { LINK_FAULTS } from "../../faults/link-faults.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import { madeClaim } from "../../report/made-run.fixture.ts";
import { mergeClaims } from "../../report/verdict.ts";
import { intentOf, isIncidental, misspeltRequired, shortened } from "../../stages/stage-plan.ts";
import type { Target } from "../../target/target.ts";
import { guardTarget } from "../../target/target-file.ts";
import { proposeTarget } from "../../verify/doctor/what-would-run.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { SUITES, scenarioStage, subjectsOf } from "./suites.ts";

const given = { target: plannedEmbedded(), embedded: true };
const suites = [...SUITES.values()].map((suite) => [suite.name, suite.stages(given)] as const);
const plans = suites.flatMap(([suite, stages]) => stages.map((plan) => [suite, plan] as const));

test.each(plans)("%s: stage $name names only what there is", (_suite, plan) => {
  if (plan.kind === "verify") return;
  expect(STORIES.has(plan.story), `story ${plan.story}`).toBe(true);
  const known = INVARIANTS.map(({ id }) => id);
  expect(plan.judges.filter((id) => !known.includes(id))).toEqual([]);
  expect(new Set(plan.judges).size, "each judge once").toBe(plan.judges.length);
  const outcomes = ["200", "200 error", "indeterminate", ...OUTCOMES];
  expect((plan.reaches ?? []).filter((outcome) => !outcomes.includes(outcome))).toEqual([]);
  const { disturbance } = plan;
  const faults = disturbance?.kind === "faults" ? disturbance.faults : [];
  for (const { by, fault } of faults) if (by === "link") expect(LINK_FAULTS).toContain(fault);
});

test.each(["smoke", "nightly"])("the target file that init writes allows %s on a host of the user's", async (name) => {
  const [baseUrl, has] = ["https://192.0.2.1/v1", { publishable: true, server: true }];
  const target = proposeTarget({ baseUrl, has, seen: true, keyManagement: true }) as unknown as Target;
  const stages = SUITES.get(name)?.stages ?? (() => []);
  expect(await guardTarget(target, ["192.0.2.1"], intentOf({ stages, short: false })(target))).toEqual([]);
});

test("a curve that is played alone and ends below twice the knee is no pass; another scenario owes no curve", () => {
  const [curve, other, shaped] = [{}, {}, { loadProfile: "ramp" }].map((wish, at) =>
    subjectsOf(scenarioStage(at === 1 ? "chat-past-capacity" : "shedding-curve", wish)!),
  );
  const reached = madeClaim("reached/shedding-curve", { verdict: "pass" });
  const retention = madeClaim("curve/goodput_retention", {
    verdict: "skipped",
    reason: "skipped: needs a higher permit",
  });
  expect(mergeClaims([reached, retention], curve ?? [])).toMatchObject({
    exit_code: 4,
    reason: expect.stringContaining("a higher permit"),
  });
  expect(mergeClaims([reached, { ...retention, verdict: "pass", code: "held" }], curve ?? []).exit_code).toBe(0);
  expect(other).toEqual(["reached/chat-past-capacity"]);
  expect(shaped).toEqual(["reached/shedding-curve"]);
});

test("names of stages are unique: claims and files are called by them", () => {
  for (const [, stages] of suites) {
    const names = stages.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  }
});

test("every outcome that the issue of the main job asks for is one that a smoke stage must reach", () => {
  const reached = new Set(suites[0]?.[1].flatMap((plan) => (plan.kind === "verify" ? [] : (plan.reaches ?? []))));
  for (const outcome of [
    "200",
    "429 b2b_overloaded",
    "429 org_overloaded",
    "429 map_load_quota_exceeded",
    "429 limiter_unavailable",
    "503",
  ]) {
    expect(reached).toContain(outcome);
  }
});

test("what drawn faults do not bring about is no doubt in a soak; an experiment has to bring it about", () => {
  const stagesOf = (name: string) => (SUITES.get(name)?.stages(given) ?? []).filter((plan) => plan.kind === "load");
  const soak = stagesOf("soak");
  expect(soak.length).toBeGreaterThan(0);
  expect(soak.filter((plan) => !isIncidental(plan))).toEqual([]);
  const experiments = stagesOf("nightly").filter(
    ({ disturbance }) => disturbance?.kind === "faults" && disturbance.faults.every(({ by }) => by === "link"),
  );
  expect(experiments.length).toBeGreaterThan(0);
  expect(experiments.filter(isIncidental)).toEqual([]);
});

test("--short takes a fifth of the time, and never less than a stage needs", () => {
  const nightly = SUITES.get("nightly")?.stages(given) ?? [];
  const seconds = (stages: typeof nightly): number =>
    stages.reduce(
      (sum, plan) => sum + (plan.kind === "load" && plan.disturbance === undefined ? (plan.durationS ?? 0) : 0),
      0,
    );
  expect(seconds(nightly.map(shortened))).toBeLessThan(0.35 * seconds(nightly));
  for (const plan of nightly.map(shortened))
    if (plan.kind === "load") expect(plan.durationS ?? 4).toBeGreaterThanOrEqual(4);
  // Compared call by call, they need a hundred calls of each.
  const compared = nightly.map(shortened).filter((plan) => plan.kind === "load" && plan.isolation !== undefined);
  expect(compared.map((plan) => plan.kind === "load" && plan.durationS)).toEqual([12, 12]);
});

test.each(suites)("the target file may require each stage of %s", (_, stages) => {
  expect(misspeltRequired({ required: stages.flatMap(({ name }) => [name, `reached/${name}`]) })).toEqual([]);
});
