/** `floodgate report`: judges recorded runs again and renders them again. */
import { existsSync } from "node:fs";
import { join, resolve } from "node:path";
import { Command } from "commander";
import { terminalText } from "../report/terminal.ts";
import { judgeAgain } from "../run/judge-again.ts";
import { openRunFolder } from "../run/run-folder.ts";
import { writeReports } from "../run/write-reports.ts";
import { EXIT } from "./exit-codes.ts";

type ReportOptions = { json?: boolean };

/** When several runs were asked for, the worst decides (interface.md section 1). */
const ORDER = [EXIT.guarded, EXIT.usage, EXIT.unreachable, EXIT.fail, EXIT.inconclusive, EXIT.pass];

const reportOne = async (path: string, options: ReportOptions): Promise<number> => {
  const folder = resolve(existsSync(join(path, "run.json")) || !path.endsWith("run.json") ? path : join(path, ".."));
  const { document, series, changed } = judgeAgain(folder);
  await writeReports(openRunFolder(folder), document, series);
  if (options.json === true) process.stdout.write(`${JSON.stringify(document, null, 2)}\n`);
  const colour = process.stderr.isTTY === true && process.env.NO_COLOR === undefined;
  process.stderr.write(`${terminalText(document, { folder, colour })}\n`);
  process.stderr.write(
    changed.length === 0
      ? "Judged again from its files: every claim as the run wrote it.\n"
      : `Judged again from its files, ${changed.length} claims differ: ${changed.map(({ id, was, is }) => `${id} was ${was?.verdict ?? "absent"}, is ${is.verdict}`).join("; ")}\n`,
  );
  return document.exit_code;
};

export const reportCommand = (): Command =>
  new Command("report")
    .description("judge recorded runs again from their files and render them again")
    .argument("<run...>", "run folders")
    .option("--json", "print the content of run.json on stdout")
    .action(async (runs: string[], options: ReportOptions) => {
      const codes: number[] = [];
      for (const run of runs) {
        codes.push(await reportOne(run, options));
      }
      process.exitCode = ORDER.find((code) => codes.includes(code)) ?? codes[0] ?? EXIT.usage;
    });
