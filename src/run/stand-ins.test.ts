import { expect, test } from "vitest";
import { madeRun } from "../report/made-run.fixture.ts";
import { whyOf } from "../report/verdict.ts";
import type { LoadStage } from "../stages/stage-plan.ts";
import { withDriversThere } from "./bodies.ts";

const stage = (driver: LoadStage["driver"], more: Partial<LoadStage> = {}): LoadStage => ({
  kind: "load",
  name: driver,
  story: "steady-mix",
  driver,
  judges: [],
  ...more,
});
const driversOf = async (k6: string | null, plans: readonly LoadStage[]) =>
  (await withDriversThere({ toolOrStandIn: async () => k6 }, plans)).map((plan) => plan.kind === "load" && plan.driver);

test("without k6 the open-loop driver plays its stages, and no stage whose driver the user named", async () => {
  const plans = [stage("k6"), stage("open-loop"), stage("k6", { driverNamed: true }), stage("autocannon")];
  expect(await driversOf(null, plans)).toEqual(["open-loop", "open-loop", "k6", "autocannon"]);
  expect(await driversOf("/somewhere/k6", plans)).toEqual(["k6", "open-loop", "k6", "autocannon"]);
});

test("k6 is not looked for where no stage wants it", async () => {
  const asked = withDriversThere({ toolOrStandIn: () => Promise.reject(new Error("asked")) }, [stage("open-loop")]);
  expect(await asked).toHaveLength(1);
});

test("the verdict's sentence says what stood in for what", () => {
  const run = madeRun();
  expect(whyOf(run)).not.toContain("stood in");
  expect(whyOf({ ...run, stand_ins: [{ tool: "k6", by: "the open-loop driver" }] })).toContain(
    "k6 is not on this machine: the open-loop driver stood in for it.",
  );
});
