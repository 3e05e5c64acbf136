import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type Line, lineTimeUs } from "../history/line.ts";
import { measureStage } from "../history/measure-stage.fixture.ts";
import type { StageOutcome } from "../history/run-document.ts";
import { seriesFold } from "../history/series.ts";
import { madeRun } from "../report/made-run.fixture.ts";
import { createRecorder, makeRunFolder } from "./recorder.ts";

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
  const readBack = await recorder.record("late");
  for (const at of [50, 20, 30, 90, 40]) recorder.line(mark("late", at));
  recorder.line(mark("beside", 60));
  const lines = [...(await readBack())];
  expect(lines).toEqual([20, 30, 40, 50, 90].map((at) => mark("late", at)));
  await recorder.close();
});

const answered = (stage: string, i: number, outcome = "200"): Line => ({
  type: "call",
  id: `r.${stage}.c-${i}`,
  stage,
  driver: "k6",
  org: "org_a",
  route: "design.styles",
  intended_us: i * 10_000,
  started_us: i * 10_000,
  connect_us: 0,
  sent_us: i * 10_000,
  first_us: i * 10_000 + 900,
  done_us: i * 10_000 + 1_000,
  outcome,
  attempt: 0,
  clock_error_us: 0,
});

test.each([
  ["a history that has grown large", 20_000, undefined],
  ["a stage that asks for it", Number.POSITIVE_INFINITY, { fold: true }],
])("%s has its admitted calls folded, and loses none", async (_, foldsFromBytes, wish) => {
  const folder = makeRunFolder({ profile: "smoke", now: new Date(0), reports });
  const recorder = createRecorder(folder, null, foldsFromBytes);
  await recorder.begin(() => madeRun());
  const readBack = await recorder.record("late", wish);
  const calls = Array.from({ length: 1_000 }, (_, i) => answered("late", i, i % 10 === 0 ? "429 rate_limited" : "200"));
  for (const line of calls) recorder.line(line);
  const lines = [...(await readBack())];
  const wholes = lines.filter(({ type }) => type === "call");
  const folded = lines.flatMap((line) => (line.type === "fold" ? [line.offered] : []));
  expect(wholes.length + folded.reduce((sum, n) => sum + n, 0)).toBe(1_000);
  expect(wholes.length).toBeLessThan(300);
  expect(wholes.filter((line) => line.type === "call" && line.outcome === "429 rate_limited")).toHaveLength(100);
  expect(lines.map(lineTimeUs)).toEqual(lines.map(lineTimeUs).toSorted((a, b) => a - b));
  expect(measureStage(lines, { stage: "late" }).summary).toEqual(measureStage(calls, { stage: "late" }).summary);
  // What a run says of itself, and what is read of its file afterwards, is the same.
  const again = seriesFold();
  for (const line of lines) again.see(line);
  expect(recorder.series()).toEqual(again.end());
  await recorder.addStage({ ...STAGE, summary: { ...STAGE.summary, name: "late" } });
  expect(recorder.stages[0]?.notes.some((note) => note.includes("folded"))).toBe(wish === undefined);
  await recorder.close();
});
