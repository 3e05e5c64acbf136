/** `floodgate demo`: the reference platform with a planted defect, and the verdict that finds it, in under a minute. */

import { appendFile, writeFile } from "node:fs/promises";
import type { Mutant } from "../mutants/mutant.ts";
import { htmlReport } from "../report/page/html.ts";
import { wrapped } from "../report/terminal.ts";
import { EXIT } from "../run/exit-codes.ts";
import { outcomesSeen } from "../run/read-run.ts";
import { commitOf, composeDocument } from "../run/run-reports.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { called, UsageError } from "../supervision/user-file.ts";
import { type DemoProgress, PLANTABLE, PLANTED, playDemo } from "../trials/trials.ts";
import { commandOf } from "./options.ts";
import { printJson, printNote, printResult } from "./printing.ts";

const chosen = (names: readonly string[]): Mutant[] =>
  (names.length === 0 ? PLANTED : names).map((name) =>
    called("defect", name, PLANTABLE, "--list shows what can be planted"),
  );

const paragraph = (head: string, text: string): string => wrapped(text, head.padEnd(9), 9).join("\n");

const show: DemoProgress = ({ defect, platform, claims }) => {
  const failed = claims.filter(({ verdict }) => verdict === "fail");
  const passed = claims.filter(({ verdict }) => verdict === "pass").length;
  if (platform === "healthy") {
    printNote(`\n${paragraph("Planted", `${defect.name}: ${defect.harm}`)}\n`);
    if (failed.length === 0) printNote(paragraph("PASS", `the healthy platform under the same load, ${passed} claims`));
  }
  for (const { id, reason, got } of failed) {
    printNote(paragraph("FAIL", `${id}: ${reason}${got === "" ? "" : `: ${got}`}`));
  }
};

const checkPage = (path: string): Promise<void> =>
  appendFile(path, "").catch(({ code }: NodeJS.ErrnoException) => {
    throw new UsageError(`--page: ${path} cannot be written (${code}); name another file`);
  });

export const demoCommand = () =>
  commandOf("demo", {
    about: "plant defects in the reference platform and see them found; no Go, no network, no file",
    operands: [["[defect...]", `what is planted (default: ${PLANTED.join(", ")})`]],
    options: [
      ["--list", "show what can be planted, and end"],
      ["--page <file>", "write the report's page to this file"],
      ["--json", "print run.json on stdout"],
      ["--quiet", "the verdict alone"],
    ],
    help: "\nExit codes: 1 everything that was planted is found, which is a failed run;\n4 something was not found.",
  }).action(async (names: string[], options: { list?: boolean; page?: string; json?: boolean; quiet?: boolean }) => {
    if (options.list === true) {
      for (const { name, harm } of PLANTABLE) printResult(`${wrapped(harm, `${name}  `, 4).join("\n")}\n`);
      return;
    }
    const defects = chosen(names);
    const { page, json, quiet } = options;
    if (page !== undefined) await checkPage(page);
    const started = new Date();
    const { stages, series, missed } = await playDemo(defects, quiet === true ? (): void => {} : show);
    const summaries = stages.map(({ summary }) => summary);
    const document = composeDocument({
      id: `demo-${defects.map(({ name }) => name).join("-and-")}`.slice(0, 100),
      ...{ profile: "demo", seed: 1, started, finished: new Date(), commit: await commitOf(REPOSITORY) },
      target: { name: "the reference platform, spoilt on purpose", base_url: "", embedded: true },
      ...{ stages, claims: stages.flatMap(({ claims }) => claims), tools: { k6: null, toxiproxy: null } },
      ...{ deployments: [], measurements: [], calibration: [], standIns: [] },
      outcomesSeen: outcomesSeen([], summaries),
    });
    const found = `${defects.length - missed.length} of ${defects.length} planted defects found`;
    const seconds = Math.round(document.duration_ms / 1000);
    const sense = "A run that finds one says FAIL and ends with exit code 1, and so does this.";
    const end = missed.length === 0 ? `. ${sense}` : `; not found: ${missed.join(", ")}`;
    printNote(`\n${wrapped(`${found} in ${seconds} s${end}`).join("\n")}\n`);
    if (page !== undefined) {
      await writeFile(page, htmlReport(document, series));
      printNote(`The page: ${page}\n`);
    }
    if (json === true) printJson(document);
    process.exitCode = missed.length > 0 ? EXIT.inconclusive : document.exit_code;
  });
