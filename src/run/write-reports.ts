/** Writes what a run leaves behind (interface.md section 3). Every text passes the run folder's redaction. */
import type { RunDocument } from "../history/run-document.ts";
import type { Series } from "../history/series.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import { ctrfJson } from "../report/ctrf.ts";
import { junitXml } from "../report/junit.ts";
import { openMetrics } from "../report/openmetrics.ts";
import { htmlReport } from "../report/page/html.ts";
import { summaryMarkdown } from "../report/summary-markdown.ts";
import { readFound } from "./read-found.ts";
import type { RunFolder } from "./run-folder.ts";

/** `stages.json`: what judging again needs besides history and ledger. */
export type StageRecord = { facts: Omit<StageFacts, "ledger">; hasLedger: boolean };

export const writeReports = async (
  folder: Pick<RunFolder, "writeJson" | "writeText" | "masked" | "path">,
  found: RunDocument,
  series: Series,
): Promise<void> => {
  // Before it is rendered: `a<b` in a password is `a&lt;b` in a page, which nobody would know for the password.
  const document = folder.masked(found);
  const masked = folder.masked(series);
  await folder.writeJson("run.json", document);
  await folder.writeText("series.json", `${JSON.stringify(masked)}\n`);
  await folder.writeText("report.html", htmlReport(document, masked, folder.masked(readFound(folder))));
  await folder.writeText("summary.md", summaryMarkdown(document));
  await folder.writeText("junit.xml", junitXml(document));
  await folder.writeText("ctrf.json", ctrfJson(document));
  await folder.writeText("metrics.prom", openMetrics(document));
};
