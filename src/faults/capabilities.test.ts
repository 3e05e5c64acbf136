import { expect, test } from "vitest";
import { experimentStage, stageOf } from "../run/suites/suites.ts";
import type { Target } from "../target/target.ts";
import type { Disturbance } from "./disturbance.ts";
import { type Disturbable, disturbanceMissing } from "./experiment.ts";
import { EXPERIMENTS, type Experiment } from "./experiments.ts";

const target: Target = { schema: "floodgate/target@1", base_url: "http://127.0.0.1:1/v1", permits: { chaos: true } };
const theirs = (more: Partial<Target> = {}): Disturbable => ({
  target: { ...target, ...more },
  faults: { links: { limiter: "limiter" } },
  faultsMissing: "",
});
const given = { target, embedded: false };
const missing = (name: string, can: Disturbable): string[] =>
  disturbanceMissing(experimentStage(given, EXPERIMENTS.get(name) as Experiment).disturbance, can);

test("what is not ours is broken by its proxies and its commands alone, and what is missing has a name", () => {
  expect(missing("limiter-refused", theirs())).toEqual([]);
  expect(missing("keys-refused", theirs())).toEqual(["`toxiproxy.proxies.keys`"]);
  expect(missing("api-killed", theirs()).join()).toContain('`faults["api.killed"]`');
  expect(missing("limiter-oom", theirs()).join()).toContain('`faults["limiter.oom"]`');
  expect(disturbanceMissing(stageOf("rolling-deploy").disturbance, theirs()).join()).toContain(
    "service.rolling-deploy",
  );
});

test("commands stand for everything, where faults are permitted", () => {
  const commands = { inject: ["true"], heal: ["true"] };
  const faults = { "api.killed": commands, "keys.refused": commands, "service.rolling-deploy": commands };
  for (const name of ["api-killed", "keys-refused", "both-refused"])
    expect(missing(name, theirs({ faults }))).toEqual([]);
  expect(disturbanceMissing(stageOf("rolling-deploy").disturbance, theirs({ faults }))).toEqual([]);
  expect(missing("api-killed", theirs({ faults, permits: {} }))).toHaveLength(1);
});

test("an operator's change needs the permit for faults, and somebody beside it who puts it back", () => {
  const changes: Disturbance = { kind: "operator-changes", changes: [{ patch: { sessions: "disabled" }, holdMs: 0 }] };
  const on = (url: string, permits: Target["permits"] = { chaos: true }) =>
    disturbanceMissing(changes, theirs({ control: { api: [url] }, permits }));
  expect(on("http://127.0.0.1:1")).toEqual([]);
  expect(on("http://127.0.0.1:1", { writes: true }).join()).toContain("`permits.chaos`");
  expect(on("http://staging.example:1").join()).toContain("cut off");
  expect(disturbanceMissing(changes, theirs()).join()).toContain("`control.api`");
});

test("of what this run started nothing is missing", () => {
  const ours: Disturbable = {
    ...theirs(),
    faults: { links: { limiter: "limiter", keys: "keys", edge: "edge" } },
    own: { store: { kind: "sqlite" } },
  };
  for (const name of ["api-killed", "both-killed", "edge-reset", "limiter-locked"])
    expect(missing(name, ours)).toEqual([]);
});
