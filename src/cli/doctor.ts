/** `floodgate doctor`: which tools are there, what this machine can measure, and what a target file is worth. */

import { Command } from "commander";
import { ObjectiveError } from "../history/objectives.ts";
import { wrapped } from "../report/terminal.ts";
import { calibrateMachine } from "../run/calibration/calibrate.ts";
import { EXIT } from "../run/exit-codes.ts";
import { checkObjectives } from "../stages/objectives.ts";
import { misspeltRequired } from "../stages/prepare-target.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { Target } from "../target/target.ts";

import { diagnoseTarget, type TargetDiagnosis } from "../verify/doctor/diagnose-target.ts";
import { type Finding, finding, worstOf } from "../verify/doctor/finding.ts";
import { calibrationSection, machineHere } from "../verify/doctor/machine.ts";
import { toolsHere } from "../verify/doctor/tools-here.ts";
import { checkPrecise, excluding, I_OWN, once } from "./options/checks.ts";
import { findingsText } from "./printing/findings-text.ts";
import { printShown } from "./printing/output.ts";

type DoctorOptions = { target?: string; iOwn?: string[]; json?: boolean; calibrate?: boolean; precise?: boolean };

/** One fixed schedule, so that two calibrations can be compared. */
const SEED = 1;

const EXIT_OF = { wrong: EXIT.usage, silent: EXIT.unreachable, missing: EXIT.unreachable } as const;

const closing = (exitCode: number, { target, iOwn = [] }: DoctorOptions, diagnosis: TargetDiagnosis | null): string => {
  const own = iOwn.length === 0 ? "" : ` --i-own ${iOwn.join(" ")}`;
  const spent = diagnosis && `Spent: ${diagnosis.spent.requests} calls, ${diagnosis.spent.map_loads} map loads.\n`;
  const verdicts: Readonly<Record<number, string>> = {
    [EXIT.pass]: target === undefined ? "Nothing is missing." : `Next: npx floodgate verify --target ${target}${own}`,
    [EXIT.usage]: "The target file is wrong: see the lines that begin with wrong.",
    [EXIT.unreachable]: "See the lines that begin with silent or missing: that cannot be reached.",
    [EXIT.inconclusive]: "This machine does not measure time well enough just now: see the lines that begin with warn.",
    [EXIT.guarded]: "Refused by the safety guard; nothing was sent.",
  };
  return `${spent ?? ""}${verdicts[exitCode]}`;
};

/** Checks the fields of a target file that only a run reads. */
const judgedFields = (target: Target): Finding[] => {
  const misspelt = misspeltRequired(target).map((text) => finding("warn", "file", text));
  try {
    checkObjectives(target);
    return misspelt;
  } catch (error) {
    if (!(error instanceof ObjectiveError)) throw error;
    return [...misspelt, finding("wrong", "slo", error.message)];
  }
};

const doctor = async (options: DoctorOptions): Promise<void> => {
  const { target, iOwn = [], calibrate, precise = false } = options;
  if (precise) checkPrecise("open-loop");
  const diagnosis = target === undefined ? null : await diagnoseTarget(target, iOwn, judgedFields);
  const calibrated =
    calibrate === true ? await calibrateMachine({ seed: SEED, precise, signal: new AbortController().signal }) : null;
  const sections = [
    await toolsHere(),
    await machineHere(REPOSITORY),
    ...(calibrated === null ? [] : [calibrationSection(calibrated.checks, calibrated.lacking, calibrated.ceilings)]),
    ...(diagnosis?.sections ?? []),
  ];
  const refused = diagnosis?.refusedByGuard ?? [];
  const worst = worstOf(sections);
  const isMeasured = calibrated?.checks.every(({ verdict }) => verdict === "pass") ?? true;
  const ofFindings = worst !== null ? EXIT_OF[worst] : isMeasured ? EXIT.pass : EXIT.inconclusive;
  const exitCode = refused.length > 0 ? EXIT.guarded : ofFindings;
  const document = {
    schema: "floodgate/doctor@1",
    sections,
    refused_by_guard: refused,
    calibration: calibrated === null ? undefined : [...calibrated.checks, ...calibrated.ceilings],
    spent: diagnosis?.spent,
    exit_code: exitCode,
  };
  const guard = refused.flatMap((reason) => wrapped(reason, "  refused  ", 11));
  const parts = [findingsText(sections), guard.join("\n"), closing(exitCode, options, diagnosis)];
  printShown(options.json, { document, lines: [parts.filter((part) => part !== "").join("\n\n")] });
  process.exitCode = exitCode;
};

export const doctorCommand = (): Command =>
  excluding(new Command("doctor"), [["precise", "!calibrate", "--precise is a way to --calibrate; give both"]])
    .description("look at tools, this machine and, with --target, a target file")
    .option("--target <file>", "also try each role of this target file once (at most 60 calls)", once)
    .option(...I_OWN)
    .option("--calibrate", "also play known delays and stalls to both drivers, and which rates ours holds (30 s)")
    .option("--precise", "calibrate the open-loop driver as load --precise uses it: it takes a whole core")
    .option("--json", "print what was found as JSON on stdout")
    .action(doctor);
