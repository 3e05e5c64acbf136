import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { madeRun } from "../report/made-run.ts";
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
  lines: [],
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
