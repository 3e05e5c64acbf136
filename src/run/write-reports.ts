/** Writes what a run leaves behind (interface.md section 3). Every text passes the run folder's redaction. */
import { lineTimeUs } from "../history/line.ts";
import type { RunDocument } from "../history/run-document.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { ctrfJson } from "../report/ctrf.ts";
import { htmlReport } from "../report/html.ts";
import { junitXml } from "../report/junit.ts";
import { openMetrics } from "../report/openmetrics.ts";
import { summaryMarkdown } from "../report/summary-markdown.ts";
import type { RunFolder } from "./run-folder.ts";
import type { StageOutcome } from "./stage.ts";

/** `stages.json`: what judging again needs besides history and ledger. */
export type StageRecord = { facts: Omit<StageFacts, "ledger">; hasLedger: boolean };

/** Calls and faults in time order, charges, and the facts of each stage. */
export const writeHistory = async (folder: RunFolder, outcomes: readonly StageOutcome[]): Promise<void> => {
  const history = folder.openLines("history.ndjson");
  const lines = outcomes.flatMap((outcome) => outcome.lines).sort((a, b) => lineTimeUs(a) - lineTimeUs(b));
  for (const line of lines) await history.write(JSON.stringify(line));
  await history.close();
  const ledger = folder.openLines("ledger.ndjson");
  for (const { facts } of outcomes) {
    for (const line of facts.ledger ?? []) await ledger.write(JSON.stringify({ stage: facts.stage, ...line }));
  }
  await ledger.close();
  const records: StageRecord[] = outcomes.map(({ facts: { ledger: charges, ...facts } }) => ({
    facts,
    hasLedger: charges !== undefined,
  }));
  await folder.writeJson("stages.json", records);
};

export const writeReports = async (
  folder: Pick<RunFolder, "writeJson" | "writeText" | "masked">,
  found: RunDocument,
): Promise<void> => {
  // Before it is rendered: `a<b` in a password is `a&lt;b` in a page, which nobody would know for the password.
  const document = folder.masked(found);
  await folder.writeJson("run.json", document);
  await folder.writeText("report.html", htmlReport(document));
  await folder.writeText("summary.md", summaryMarkdown(document));
  await folder.writeText("junit.xml", junitXml(document));
  await folder.writeText("ctrf.json", ctrfJson(document));
  await folder.writeText("metrics.prom", openMetrics(document));
};
