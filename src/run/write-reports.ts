/** Writes what a run leaves behind (interface.md section 3). Every text passes the run folder's redaction. */
import { join } from "node:path";
import { lineTimeUs } from "../history/line.ts";
import type { RunDocument } from "../history/run-document.ts";
import { ctrfJson } from "../report/ctrf.ts";
import { htmlReport } from "../report/html.ts";
import { junitXml } from "../report/junit.ts";
import { openMetrics } from "../report/openmetrics.ts";
import { summaryMarkdown } from "../report/summary-markdown.ts";
import type { RunFolder } from "./run-folder.ts";
import type { StageOutcome } from "./stage.ts";

export const writeReports = {
  /** Calls and faults in time order, charges, and the facts that judging again needs. Returns the files' paths. */
  async history(folder: RunFolder, outcomes: readonly StageOutcome[]): Promise<{ name: string; path: string }[]> {
    const history = folder.openLines("history.ndjson");
    const lines = outcomes.flatMap((outcome) => outcome.lines).sort((a, b) => lineTimeUs(a) - lineTimeUs(b));
    for (const line of lines) await history.write(JSON.stringify(line));
    await history.close();
    const ledger = folder.openLines("ledger.ndjson");
    for (const { facts } of outcomes) for (const line of facts.ledger ?? []) await ledger.write(JSON.stringify(line));
    await ledger.close();
    await folder.writeJson(
      "stages.json",
      outcomes.map(({ facts: { ledger: _, ...facts }, claims }) => ({ facts, judges: claims.map(({ id }) => id) })),
    );
    return ["history.ndjson", "ledger.ndjson", "stages.json"].map((name) => ({ name, path: join(folder.path, name) }));
  },

  async document(folder: RunFolder, document: RunDocument): Promise<void> {
    await folder.writeJson("run.json", document);
    await folder.writeText("report.html", htmlReport(document));
    await folder.writeText("summary.md", summaryMarkdown(document));
    await folder.writeText("junit.xml", junitXml(document));
    await folder.writeText("ctrf.json", ctrfJson(document));
    await folder.writeText("metrics.prom", openMetrics(document));
  },
};
