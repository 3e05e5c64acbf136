import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import type { Line } from "../history/line.ts";
import { madeRun } from "../report/made-run.fixture.ts";
import { createRecorder } from "./recorder.ts";
import { makeRunFolder } from "./run-folder.ts";
import type { StageOutcome } from "./stages/stage-outcome.ts";

let reports: string;
beforeEach(() => {
  reports = mkdtempSync(join(tmpdir(), "floodgate-recorder-"));
});
afterEach(() => rmSync(reports, { recursive: true }));

const STAGE: StageOutcome = {
  summary: madeRun().stages[0] as StageOutcome["summary"],
  facts: { stage: "late", limits: {} } as StageOutcome["facts"],
  claims: [],
  measurements: [],
  faults: [],
  notes: [],
};

test("a stage that ends after its run was closed changes nothing that the run has reported", async () => {
  const folder = makeRunFolder({ profile: "smoke", now: new Date(0), reports });
  const recorder = createRecorder(folder);
  let drafts = 0;
  await recorder.begin(() => madeRun({ exit_code: 4, seed: ++drafts }));
  await recorder.addStage(STAGE);
  expect(JSON.parse(readFileSync(folder.pathOf("run.json"), "utf8"))).toMatchObject({ seed: 2 });
  await recorder.close();
  await folder.writeJson("run.json", madeRun({ exit_code: 143 }));
  await recorder.addStage(STAGE);
  expect(JSON.parse(readFileSync(folder.pathOf("run.json"), "utf8"))).toMatchObject({ exit_code: 143 });
  expect(recorder.stages).toHaveLength(1);
  expect(drafts).toBe(2);
});

test("the lines of a stage are read back in the order of their times, and none of other stages", async () => {
  const folder = makeRunFolder({ profile: "smoke", now: new Date(0), reports });
  const recorder = createRecorder(folder);
  const mark = (stage: string, at_us: number): Line => ({ type: "mark", stage, name: `${at_us}`, at_us });
  recorder.line(mark("early", 1));
  const recording = await recorder.record("late");
  for (const at of [50, 20, 30, 90, 40]) recorder.line(mark("late", at));
  recorder.line(mark("beside", 60));
  const lines = [...(await recording.lines())];
  expect(lines).toEqual([20, 30, 40, 50, 90].map((at) => mark("late", at)));
  await recorder.close();
});
