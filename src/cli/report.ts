/** `floodgate report`: judges recorded runs again and renders them again. */

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { Command } from "commander";
import { htmlOverlay, type Recorded } from "../report/page/html-overlay.ts";
import { terminalText } from "../report/terminal.ts";
import { worstExit } from "../run/exit-codes.ts";
import { judgeAgain } from "../run/judge-again.ts";
import { openRunFolder } from "../run/run-folder.ts";
import { writeReports } from "../run/write-reports.ts";
import { isTerminal, printJson, printNote, printPainted } from "./printing/output.ts";

type ReportOptions = { json?: boolean };
type Reported = Recorded & { folder: string };

const differences = (changed: ReturnType<typeof judgeAgain>["changed"]): string => {
  if (changed.length === 0) return "Judged again from its files: every claim as the run wrote it.";
  const decided = changed.filter(({ was, is }) => was?.verdict !== is.verdict);
  const words = changed.length - decided.length;
  const said = decided.map(({ id, was, is }) => `\n  ${id} was ${was?.verdict ?? "absent"}, is ${is.verdict}`).join("");
  const other = words === 0 ? "" : `\n  ${words} with the same verdict in other words`;
  return `Judged again from its files; what differs:${said}${other}`;
};

const reportOne = async (path: string, options: ReportOptions): Promise<Reported> => {
  const folder = resolve(existsSync(join(path, "run.json")) || !path.endsWith("run.json") ? path : join(path, ".."));
  const { document, series, changed } = judgeAgain(folder);
  await writeReports(openRunFolder(folder), document, series);
  if (options.json === true) printJson(document);
  const colour = isTerminal();
  printPainted(`${terminalText(document, { folder, colour })}\n`);
  printNote(differences(changed));
  return { folder, document, series };
};

/** Two runs over each other, in the folder of the second. */
const overlay = async (a: Reported, b: Reported): Promise<void> => {
  const { writeText, pathOf } = openRunFolder(b.folder);
  await writeText("compared.html", htmlOverlay(a, b));
  printNote(`Both runs over each other: ${pathOf("compared.html")}`);
};

export const reportCommand = (): Command =>
  new Command("report")
    .description("judge recorded runs again and render them again; two are compared")
    .argument("<run...>", "run folders")
    .option("--json", "print the content of run.json on stdout")
    .action(async (runs: string[], options: ReportOptions) => {
      const reported: Reported[] = [];
      for (const run of runs) reported.push(await reportOne(run, options));
      const [a, b] = reported;
      if (reported.length === 2 && a !== undefined && b !== undefined) await overlay(a, b);
      // Where several runs were asked for, the worst decides.
      process.exitCode = worstExit(...reported.map(({ document }) => document.exit_code));
    });
