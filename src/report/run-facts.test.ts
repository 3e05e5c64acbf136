import { expect, test } from "vitest";
import type { StageSummary } from "../history/run-document.ts";
import { madeRun } from "./made-run.fixture.ts";
import { faultsSection } from "./page/html-facts.ts";
import { statesMet } from "./run-facts.ts";
import { summaryMarkdown } from "./summary-markdown.ts";

const withStates = (states: StageSummary["states"]) => {
  const [first, ...others] = madeRun().stages as [StageSummary, ...StageSummary[]];
  return madeRun({ stages: [states === undefined ? first : { ...first, name: "limiter-killed", states }, ...others] });
};
const MET = withStates([
  { state: "streams-open", must: true, times: 4 },
  { state: "shedding", must: true, times: 0 },
  { state: "last-unit", must: false, times: null },
]);

test("a situation that had to be met and was not is marked, and one that nobody shows is not zero", () => {
  const [row] = statesMet(MET)?.rows ?? [];
  expect(row?.stage).toBe("limiter-killed");
  expect(row?.cells.map(({ text }) => text)).toEqual(["4", "–", "not shown", "–", "–", "0"]);
  expect(row?.cells.map(({ missed }) => missed)).toEqual([false, false, false, false, false, true]);
  expect(statesMet(madeRun())).toBeNull();
});

test("the page and the summary have the table where there is one", () => {
  expect(summaryMarkdown(MET)).toContain("What the faults met");
  expect(summaryMarkdown(MET)).toMatch(/limiter-killed.*\*\*4\*\*.*not shown.*never/);
  expect(summaryMarkdown(madeRun())).not.toContain("What the faults met");
  expect(faultsSection(MET).text).toContain("What the faults met");
  expect(faultsSection(madeRun()).text).not.toContain("What the faults met");
});
