import { expect, test } from "vitest";
import { FAULTS } from "../../chaos/catalogue.ts";
import { OUTCOMES } from "../../contract/refusals.ts";
import { INVARIANTS } from "../../invariants/catalogue.ts";
import { STORIES } from "../../workload/catalogue.ts";
import { PROFILES } from "./smoke.ts";

const plans = Object.entries(PROFILES).flatMap(([profile, stages]) => stages.map((plan) => [profile, plan] as const));

test.each(plans)("%s: stage $name names only what there is", (_profile, plan) => {
  if (plan.driver === "verify") return;
  expect(STORIES.has(plan.story), `story ${plan.story}`).toBe(true);
  const known = INVARIANTS.map(({ id }) => id);
  expect(plan.judges.filter((id) => !known.includes(id))).toEqual([]);
  expect(new Set(plan.judges).size, "each judge once").toBe(plan.judges.length);
  const outcomes = ["200", "200 error", ...OUTCOMES];
  expect(plan.reaches.filter((outcome) => !outcomes.includes(outcome))).toEqual([]);
  if (plan.experiment !== undefined) expect(FAULTS.map(({ name }) => name)).toContain(plan.experiment.fault);
});

test("names of stages are unique: claims and files are called by them", () => {
  for (const stages of Object.values(PROFILES)) {
    const names = stages.map(({ name }) => name);
    expect(new Set(names).size).toBe(names.length);
  }
});

test("every outcome that the issue of the main job asks for is one that a smoke stage must reach", () => {
  const reached = new Set(PROFILES.smoke?.flatMap(({ reaches }) => reaches));
  for (const outcome of [
    ...["200", "429 b2b_overloaded", "429 org_overloaded", "429 map_load_quota_exceeded"],
    ...["429 limiter_unavailable", "503"],
  ]) {
    expect(reached).toContain(outcome);
  }
});
