import { describe, expect, test } from "vitest";
import type { Deployment } from "../../deployments/deployment.ts";
import type { LoadStage } from "../../stages/stage-plan.ts";
import { calibrationPlanOf } from "./calibrate.ts";

const DEPLOYMENT = {
  target: {
    schema: "floodgate/target@1",
    base_url: "http://127.0.0.1:1/v1",
    tenants: [{ org: "a", server: { key: "svc_sk_live_a" } }],
  },
  embedded: true,
  faults: { links: { limiter: {} } },
  faultsMissing: "",
  found: {},
} as unknown as Deployment;

const stage = (name: string, more: Partial<LoadStage> = {}): LoadStage => ({
  kind: "load",
  name,
  story: "catalog-reads",
  driver: "open-loop",
  judges: [],
  ratePerS: 10,
  durationS: 1,
  ...more,
});

const planOf = (...stages: LoadStage[]) => calibrationPlanOf(DEPLOYMENT, stages);
const planned = (...stages: LoadStage[]): [string, number][] => [...planOf(...stages).peaks];

describe("what is calibrated", () => {
  test("is each driver that is used, for the highest rate of one of its processes", () => {
    const stages = [
      stage("a"),
      stage("b", { ratePerS: 40, segments: 2 }),
      stage("c", { ratePerS: 15 }),
      stage("d", { driver: "k6", ratePerS: 5 }),
    ];
    expect(planned(...stages)).toEqual([
      ["open-loop", 20],
      ["k6", 5],
    ]);
  });

  test("is not autocannon, which has no schedule: k6 in its place would only show what k6 measures", () => {
    expect(planned(stage("a", { driver: "autocannon" }))).toEqual([]);
  });

  test("is the folding mode as well, at three times the rate, where a stage folds", () => {
    expect(planOf(stage("a", { ratePerS: 400, fold: true })).ceilings).toEqual([
      { mode: "folded", perS: 1_200, forS: 0.5 },
    ]);
    expect(planOf(stage("a", { ratePerS: 400 })).ceilings).toEqual([]);
    expect(planOf(stage("a", { driver: "k6", fold: true })).ceilings).toEqual([]);
  });

  test("is each mode of the open-loop driver that the run uses, and no other", () => {
    const [folds, whole, k6] = [stage("a", { fold: true }), stage("b"), stage("c", { driver: "k6" })];
    expect(planOf(folds, k6)).toMatchObject({ foldsAll: true, precise: false });
    expect(planOf(folds, whole)).toMatchObject({ foldsAll: false, precise: false });
    expect(planOf(k6).foldsAll).toBe(false);
    expect(planOf(whole, stage("d", { precise: true }))).toMatchObject({ foldsAll: false, precise: true });
  });

  test("is nothing where only links are broken and nobody asks how long things take", () => {
    const disturbance: LoadStage["disturbance"] = {
      kind: "faults",
      name: "limiter-refused",
      faults: [{ by: "link", component: "limiter", fault: "refused" }],
      holdMs: 100,
    };
    const broken = stage("broken", { story: "broken-dependency", disturbance, judges: ["fails-closed"] });
    expect(planned(broken)).toEqual([]);
    expect(planned({ ...broken, judges: ["refusals-are-cheap"] })).toHaveLength(1);
    expect(planned({ ...broken, objectives: true })).toHaveLength(1);
    expect(planned()).toEqual([]);
  });
});
