/** `floodgate report`: judges recorded runs again and renders them again. */

import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Command } from "commander";
import { htmlOverlay, type Recorded } from "../report/page/html-overlay.ts";
import { terminalText } from "../report/terminal.ts";
import { mergeParts, readParts } from "../run/bodies.ts";
import { worstExit } from "../run/exit-codes.ts";
import { judgeAgain } from "../run/read-run.ts";
import { wordsOf, writeReports } from "../run/run-reports.ts";
import { openRunFolder } from "../supervision/run-folder.ts";
import { recorded } from "./judging-command.ts";
import { commandOf } from "./options.ts";
import { isTerminal, printJson, printNote, printPainted } from "./printing.ts";

type Reported = Recorded & { folder: string };

const differences = (changed: ReturnType<typeof judgeAgain>["changed"]): string => {
  if (changed.length === 0) return "Judged again from its files: every claim as the run wrote it.";
  const decided = changed.filter(({ was, is }) => was?.verdict !== is.verdict);
  const reworded = changed.length - decided.length;
  return [
    "Judged again from its files; what differs:",
    ...decided.map(({ id, was, is }) => `  ${id} was ${was?.verdict ?? "absent"}, is ${is.verdict}`),
    ...(reworded === 0 ? [] : [`  ${reworded} with the same verdict in other words`]),
  ].join("\n");
};

const reportOne = async (path: string, isJson: boolean): Promise<Reported> => {
  const folder = resolve(existsSync(join(path, "run.json")) || !path.endsWith("run.json") ? path : join(path, ".."));
  const { document, series, changed } = judgeAgain(folder);
  const unwritten = await writeReports(openRunFolder(folder), document, series).then(() => null, wordsOf);
  if (isJson) printJson(document);
  printPainted(`${terminalText(document, { folder, colour: isTerminal() })}\n`);
  printNote(differences(changed));
  if (unwritten !== null) {
    const advice =
      "The verdict above is of the recorded files; copy the folder to where it may be written, for its reports";
    throw new Error(`in ${folder} not everything could be written: ${unwritten}. ${advice}`);
  }
  return { folder, document, series };
};

const joined = async (command: Command, files: readonly string[]): Promise<void> => {
  const parts = readParts(files);
  command.setOptionValue("seed", parts.seed);
  const replay = `npx floodgate report --merge ${files.join(" ")}`;
  await recorded(command, (common) => mergeParts({ ...common, replay }, parts));
};

export const reportCommand = () =>
  commandOf("report", {
    about: "judge recorded runs again and render them again; two are compared",
    operands: [["<run...>", "run folders"]],
    options: [
      ["--merge", "the arguments are the parts of one distributed run, one file each: joined, they are one run"],
      ["--out <dir>", "with --merge: where the run folder is made (default: under reports/runs)"],
      ["--json", "print the content of run.json on stdout"],
    ],
    help: "\nExit codes: those of the runs as they are judged now; of several runs the worst.",
  }).action(async (runs: string[], { json = false, merge }: { json?: boolean; merge?: true }, command: Command) => {
    if (merge === true) return joined(command, runs);
    const reported: Reported[] = [];
    for (const run of runs) reported.push(await reportOne(run, json));
    const [a, b] = reported;
    if (reported.length === 2 && a !== undefined && b !== undefined) {
      const { writeText, pathOf } = openRunFolder(b.folder);
      await writeText("compared.html", htmlOverlay(a, b));
      printNote(`Both runs laid over each other: ${pathOf("compared.html")}`);
    }
    process.exitCode = worstExit(...reported.map(({ document }) => document.exit_code));
  });
