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

const read = <T>(path: string): T | null => (existsSync(path) ? (readUserJson(path, RECORDED_BOUNDS) as T) : null);

/** The previous run of the same profile on the same target, among the sibling folders; names sort by time. */
const readEarlier = (path: string): Earlier | null => {
  const [, profile] = FOLDER.exec(basename(path)) ?? [];
  const own = read<Earlier & Pick<RunDocument, "target">>(join(path, "run.json"));
  if (profile === undefined || own === null) return null;
  const names = readdirSync(dirname(path)).filter(
    (name) => FOLDER.exec(name)?.[1] === profile && name < basename(path),
  );
  for (const name of names.sort().reverse().slice(0, LOOKED_AT_MOST)) {
    try {
      const document = read<Earlier & Pick<RunDocument, "target">>(join(dirname(path), name, "run.json"));
      if (document !== null && document.target.name === own.target.name) return document;
    } catch {
      // A killed run may have left half a document; the one before it will do.
    }
  }
  return null;
};

const readCurve = ({ path }: { path: string }): Curve | undefined => read<Curve>(join(path, "curve.json")) ?? undefined;

const readFound = (folder: { path: string }): Found & { earlier?: Earlier } => {
  const { path } = folder;
  const gate = read<{ comparisons?: Comparison[] }>(join(path, "gate.json"))?.comparisons;
  const capacity = read<FoundCapacity>(join(path, "capacity.json"));
  const earlier = readEarlier(path);
  return { earlier: earlier ?? undefined, gate, capacity: capacity ?? undefined, curve: readCurve(folder) };
};

/** `stages.json`: what judging again needs besides history and ledger. */
export type StageRecord = { facts: Omit<StageFacts, "ledger">; hasLedger: boolean };

const REPORTS: readonly { name: string; render: (about: Rendered) => string }[] = [
  { name: "series.json", render: ({ series }) => `${JSON.stringify(series)}\n` },
  {
    name: "report.html",
    render: ({ document, series, folder }) => htmlReport(document, series, folder.masked(readFound(folder))),
  },
  {
    name: "summary.md",
    render: ({ document, folder }) => summaryMarkdown(document, { curve: folder.masked(readCurve(folder)) }),
  },
  { name: "junit.xml", render: ({ document }) => junitXml(document) },
  { name: "ctrf.json", render: ({ document }) => ctrfJson(document) },
  { name: "night.json", render: ({ document }) => nightJson(document) },
  { name: "metrics.prom", render: ({ document }) => openMetrics(document) },
];

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
  for (const { name, render } of REPORTS) {
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
  for (const { name } of REPORTS) rmSync(join(folder.path, name), { recursive: true, force: true });
  // If this fails too, the draft stays, which is inconclusive.
  await folder.writeJson("run.json", folder.masked(document)).catch(() => undefined);
  await writeEach(folder, document, series);
};
