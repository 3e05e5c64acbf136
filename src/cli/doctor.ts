/** `floodgate doctor`: which tools are there, what this machine can measure, and what a target file is worth. */

import { Command } from "commander";
import { ObjectiveError } from "../history/objectives.ts";
import type { Calibration } from "../history/run-document.ts";
import { wrapped } from "../report/terminal.ts";
import { calibrateMachine } from "../run/calibration/calibrate-machine.ts";
import { EXIT, UsageError } from "../run/exit-codes.ts";
import { checkObjectives } from "../stages/objectives.ts";
import { misspeltRequired } from "../stages/required-names.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import type { Target } from "../target/target.ts";
import { calibrationSection } from "../verify/doctor/calibration-findings.ts";
import { diagnoseTarget, type TargetDiagnosis } from "../verify/doctor/diagnose-target.ts";
import { type Finding, finding, type Section, worstOf } from "../verify/doctor/finding.ts";
import { machineHere } from "../verify/doctor/machine.ts";
import { toolsHere } from "../verify/doctor/tools-here.ts";
import { checkPrecise } from "./load.ts";
import { I_OWN, once } from "./options/values.ts";
import { findingsText } from "./printing/findings-text.ts";
import { printJson, printResult } from "./printing/output.ts";

type DoctorOptions = { target?: string; iOwn?: string[]; json?: boolean; calibrate?: boolean; precise?: boolean };

/** The same schedule each time, so that two calibrations can be compared. */
const SEED = 1;

const EXIT_OF = { wrong: EXIT.usage, silent: EXIT.unreachable, missing: EXIT.unreachable } as const;

const exitOf = (
  sections: readonly Section[],
  refused: readonly string[],
  checks: readonly Pick<Calibration, "verdict">[],
): number => {
  if (refused.length > 0) return EXIT.guarded;
  const worst = worstOf(sections);
  if (worst !== null) return EXIT_OF[worst];
  return checks.every(({ verdict }) => verdict === "pass") ? EXIT.pass : EXIT.inconclusive;
};

const closing = (exitCode: number, { target, iOwn = [] }: DoctorOptions, diagnosis: TargetDiagnosis | null): string => {
  const own = iOwn.length === 0 ? "" : ` --i-own ${iOwn.join(" ")}`;
  const owned =
    diagnosis === null ? [] : [`Spent: ${diagnosis.spent.requests} calls, ${diagnosis.spent.map_loads} map loads.`];
  const verdicts: Readonly<Record<number, string>> = {
    [EXIT.pass]: target === undefined ? "Nothing is missing." : `Next: npx floodgate verify --target ${target}${own}`,
    [EXIT.usage]: "The target file is wrong: see the lines that begin with wrong.",
    [EXIT.unreachable]: "See the lines that begin with silent or missing: that cannot be reached.",
    [EXIT.inconclusive]: "This machine does not measure time well enough just now: see the lines that begin with warn.",
    [EXIT.guarded]: "Refused by the safety guard; nothing was sent.",
  };
  return [...owned, verdicts[exitCode] ?? ""].join("\n");
};

/** Fields of a target file that only a run reads. */
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
  if (options.precise === true) {
    if (options.calibrate !== true) throw new UsageError("--precise is a way to --calibrate; give both");
    checkPrecise("open-loop");
  }
  const diagnosis =
    options.target === undefined ? null : await diagnoseTarget(options.target, options.iOwn ?? [], judgedFields);
  const calibrated =
    options.calibrate === true
      ? await calibrateMachine({ seed: SEED, precise: options.precise === true, signal: new AbortController().signal })
      : null;
  const sections = [
    await toolsHere(),
    await machineHere(REPOSITORY),
    ...(calibrated === null ? [] : [calibrationSection(calibrated.checks, calibrated.lacking, calibrated.ceilings)]),
    ...(diagnosis?.sections ?? []),
  ];
  const refused = diagnosis?.refusedByGuard ?? [];
  const exitCode = exitOf(sections, refused, calibrated?.checks ?? []);
  if (options.json === true) {
    const document = {
      schema: "floodgate/doctor@1",
      sections,
      refused_by_guard: refused,
      ...(calibrated === null ? {} : { calibration: [...calibrated.checks, ...calibrated.ceilings] }),
      ...(diagnosis === null ? {} : { spent: diagnosis.spent }),
      exit_code: exitCode,
    };
    printJson(document);
  } else {
    const guard = refused.flatMap((reason) => wrapped(reason, "  refused  ", 11));
    const parts = [findingsText(sections), ...(guard.length === 0 ? [] : [guard.join("\n")])];
    printResult([...parts, closing(exitCode, options, diagnosis)].join("\n\n"));
  }
  process.exitCode = exitCode;
};

export const doctorCommand = (): Command =>
  new Command("doctor")
    .description("look at tools, this machine and, with --target, a target file")
    .option("--target <file>", "also try each role of this target file once (at most 60 calls)", once)
    .option(...I_OWN)
    .option("--calibrate", "also play known delays and stalls to both drivers, and which rates ours holds (30 s)")
    .option("--precise", "calibrate the open-loop driver as load --precise uses it: it takes a whole core")
    .option("--json", "print what was found as JSON on stdout")
    .action(doctor);
