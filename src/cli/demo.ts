/** `floodgate demo`: the reference platform with a planted defect, and the verdict that finds it, in under a minute. */

import { open, writeFile } from "node:fs/promises";
import { Command } from "commander";
import { noSuch } from "../contract/nearest.ts";
import type { Claim } from "../history/run-document.ts";
import type { Mutant } from "../mutants/mutant.ts";
import { htmlReport } from "../report/page/html.ts";
import { wrapped } from "../report/terminal.ts";
import { commitOf, describeEnvironment } from "../run/environment.ts";
import { EXIT, UsageError } from "../run/exit-codes.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import { type DemoProgress, PLANTABLE, PLANTED, playDemo } from "../trials/demo.ts";
import { printJson, printNote, printResult } from "./printing/output.ts";

type DemoOptions = { list?: boolean; page?: string; json?: boolean; quiet?: boolean };

const chosen = (names: readonly string[]): Mutant[] =>
  (names.length === 0 ? PLANTED : names).map((name) => {
    const defect = PLANTABLE.find((one) => one.name === name);
    if (defect !== undefined) return defect;
    const known = PLANTABLE.map((one) => one.name);
    throw new UsageError(noSuch("defect", name, known, "--list shows what can be planted"));
  });

const paragraph = (head: string, text: string): string => wrapped(text, head.padEnd(9), 9).join("\n");

const said = ({ id, reason, got }: Claim): string => `${id}: ${reason}${got === "" ? "" : ` (${got})`}`;

const show: DemoProgress = ({ defect, platform, claims }) => {
  const failed = claims.filter(({ verdict }) => verdict === "fail");
  const passed = claims.filter(({ verdict }) => verdict === "pass");
  if (platform === "healthy") printNote(`\n${paragraph("Planted", `${defect.name}: ${defect.harm}`)}\n`);
  const lines = [
    ...(platform === "healthy" && failed.length === 0
      ? [paragraph("PASS", `the healthy platform under the same load, ${passed.length} claims`)]
      : []),
    ...failed.map((claim) => paragraph("FAIL", said(claim))),
  ];
  if (lines.length > 0) printNote(lines.join("\n"));
};

/** Before anything is played: a page that cannot be written is bad news too late. */
const checkPage = async (path: string): Promise<void> => {
  try {
    await (await open(path, "a")).close();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    throw new UsageError(`--page: ${path} cannot be written (${code}); name another file`);
  }
};

export const demoCommand = (): Command =>
  new Command("demo")
    .description("plant defects in the reference platform and see them found; no Go, no network, no file")
    .argument("[defect...]", `what is planted (default: ${PLANTED.join(", ")})`)
    .option("--list", "show what can be planted, and end")
    .option("--page <file>", "write the report's page to this file")
    .option("--json", "print run.json on stdout")
    .option("--quiet", "the verdict alone")
    .addHelpText(
      "after",
      "\nExit codes: 1 everything that was planted is found, which is a failed run;\n4 something was not found.",
    )
    .action(async (names: string[], options: DemoOptions) => {
      if (options.list === true) {
        for (const { name, harm } of PLANTABLE) printResult(`${wrapped(harm, `${name}  `, 4).join("\n")}\n`);
        return;
      }
      const defects = chosen(names);
      if (options.page !== undefined) await checkPage(options.page);
      const about = {
        commit: await commitOf(REPOSITORY),
        environment: describeEnvironment({ k6: null, toxiproxy: null }, []),
      };
      const progress = options.quiet === true ? (): void => {} : show;
      const { document, series, missed } = await playDemo(defects, about, () => new Date(), progress);
      const seconds = Math.round(document.duration_ms / 1000);
      const found = defects.length - missed.length;
      printNote(
        `\n${document.verdict.toUpperCase()}  ${found} of ${defects.length} planted defects found in ${seconds} s${missed.length === 0 ? "" : `; not found: ${missed.join(", ")}`}\n`,
      );
      if (options.page !== undefined) {
        await writeFile(options.page, htmlReport(document, series));
        printNote(`The page: ${options.page}\n`);
      } else printNote("With --page FILE the report's page is written, too.\n");
      if (options.json === true) printJson(document);
      process.exitCode = missed.length > 0 ? EXIT.inconclusive : document.exit_code;
    });
