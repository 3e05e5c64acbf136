/** Writes the reports of a run, each masked by the run folder. */

import { existsSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { RunFolder } from "../deployments/run-context.ts";
import type { Comparison } from "../gate/paired-comparison.ts";
import type { RunDocument } from "../history/run-document.ts";
import type { Series } from "../history/series.ts";
import type { StageFacts } from "../history/stage-facts.ts";
import type { Found } from "../report/charts/charts-section.ts";
import type { FoundCapacity } from "../report/charts/found-charts.ts";
import { ctrfJson } from "../report/ctrf.ts";
import { junitXml } from "../report/junit.ts";
import { nightJson } from "../report/night.ts";
import { openMetrics } from "../report/openmetrics.ts";
import { type Earlier, htmlReport } from "../report/page/html.ts";
import { summaryMarkdown } from "../report/summary-markdown.ts";
import type { Curve } from "../shedding/curve.ts";
import { fileProblem, RECORDED_BOUNDS, readUserJson } from "../supervision/user-file.ts";

const FOLDER = /^\d{8}T\d{6}Z-(.+)-[0-9a-f]{4}$/;
const LOOKED_AT_MOST = 10;

const read = <T>(...path: string[]): T | undefined =>
  existsSync(join(...path)) ? (readUserJson(join(...path), RECORDED_BOUNDS) as T) : undefined;

type Run = Earlier & Pick<RunDocument, "target">;

/** The previous run of the same profile on the same target, among the sibling folders; names sort by time. */
const readEarlier = (path: string): Earlier | undefined => {
  const [, profile] = FOLDER.exec(basename(path)) ?? [];
  const own = read<Run>(path, "run.json");
  if (profile === undefined || own === undefined) return undefined;
  const isEarlier = (name: string): boolean => FOLDER.exec(name)?.[1] === profile && name < basename(path);
  const names = readdirSync(dirname(path)).filter(isEarlier).sort().reverse();
  for (const name of names.slice(0, LOOKED_AT_MOST)) {
    try {
      const document = read<Run>(dirname(path), name, "run.json");
      if (document?.target.name === own.target.name) return document;
    } catch {
      // A killed run may have left half a document; the one before it will do.
    }
  }
  return undefined;
};

const readCurve = (path: string): Curve | undefined => read(path, "curve.json");

const readFound = (path: string): Found & { earlier?: Earlier } => ({
  earlier: readEarlier(path),
  gate: read<{ comparisons?: Comparison[] }>(path, "gate.json")?.comparisons,
  capacity: read<FoundCapacity>(path, "capacity.json"),
  curve: readCurve(path),
});

/** `stages.json`: what judging again needs besides history and ledger. */
export type StageRecord = { facts: Omit<StageFacts, "ledger">; hasLedger: boolean };

const REPORTS: Readonly<Record<string, (about: Rendered) => string>> = {
  "series.json": ({ series }) => `${JSON.stringify(series)}\n`,
  "report.html": ({ document, series, folder }) => htmlReport(document, series, folder.masked(readFound(folder.path))),
  "summary.md": ({ document, folder }) => summaryMarkdown(document, { curve: folder.masked(readCurve(folder.path)) }),
  "junit.xml": ({ document }) => junitXml(document),
  "ctrf.json": ({ document }) => ctrfJson(document),
  "night.json": ({ document }) => nightJson(document),
  "metrics.prom": ({ document }) => openMetrics(document),
};

type ReportsIn = Pick<RunFolder, "writeJson" | "writeText" | "masked" | "path">;
type Rendered = { document: RunDocument; series: Series; folder: ReportsIn };

/** What an error says, as a clause. */
export const wordsOf = (error: unknown): string =>
  fileProblem(error)?.sentence ?? (error instanceof Error ? error.message : String(error));

/** Writes each report, whatever becomes of the others; returns the reasons, each with the reports that failed for it. */
const writeEach = async (folder: ReportsIn, found: RunDocument, ofRun: Series): Promise<string[]> => {
  // Masked before rendering, which changes how a secret looks.
  const document = folder.masked(found);
  const series = folder.masked(ofRun);
  const failed = new Map<string, string[]>();
  for (const [name, render] of Object.entries(REPORTS)) {
    try {
      await folder.writeText(name, render({ document, series, folder }));
    } catch (error) {
      const reason = wordsOf(error);
      failed.set(reason, [...(failed.get(reason) ?? []), name]);
    }
  }
  return [...failed].map(([reason, names]) => `${reason}: ${names.join(", ")}`);
};

/** `run.json` comes last: until then it is an unfinished run's draft. Throws the reasons once all that can be is written. */
export const writeReports = async (folder: ReportsIn, document: RunDocument, series: Series): Promise<void> => {
  const failed = await writeEach(folder, document, series);
  if (failed.length > 0) throw new Error(failed.join("; "));
  await folder.writeJson("run.json", folder.masked(document));
};

export const writeWhatCanBe = async (folder: ReportsIn, document: RunDocument, series: Series): Promise<void> => {
  // They contradict the document and take its room.
  for (const name of Object.keys(REPORTS)) rmSync(join(folder.path, name), { recursive: true, force: true });
  // If this fails too, the draft stays, which is inconclusive.
  await folder.writeJson("run.json", folder.masked(document)).catch(() => undefined);
  await writeEach(folder, document, series);
};
