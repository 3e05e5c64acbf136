/** `floodgate doctor`: tools, what this machine can measure, what a target file is worth, and the limits of its deployment. */

import { Command } from "commander";
import { ObjectiveError } from "../history/objectives.ts";
import { wrapped } from "../report/terminal.ts";
import { calibrateMachine } from "../run/calibration/calibrate.ts";
import { EXIT, EXIT_OF_SIGNAL, worstExit } from "../run/exit-codes.ts";
import { findLimits } from "../run/limits/find-limits.ts";
import {
  AT_MOST,
  checkCopy,
  checkPermitted,
  copyFinding,
  copyOf,
  decideLimits,
  writeCopy,
} from "../run/limits/limits-into-file.ts";
import { checkObjectives } from "../stages/objectives.ts";
import { misspeltRequired, prepareTarget } from "../stages/prepare-target.ts";
import { REPOSITORY } from "../supervision/repository.ts";
import { listenForStop } from "../supervision/stop-signals.ts";
import { lockTarget } from "../target/lock.ts";
import type { Target } from "../target/target.ts";
import { readTargetFile } from "../target/target-file.ts";
import { diagnoseTarget } from "../verify/doctor/diagnose-target.ts";
import { type Finding, finding, type Section, worstOf } from "../verify/doctor/finding.ts";
import { calibrationSection, machineHere } from "../verify/doctor/machine.ts";
import { toolsHere } from "../verify/doctor/tools-here.ts";
import { checkPrecise, type Exclusion, excluding, I_OWN, once, withOptions } from "./options/checks.ts";
import { findingsText } from "./printing/findings-text.ts";
import { printNote, printShown } from "./printing/output.ts";

type DoctorOptions = Partial<Record<"json" | "calibrate" | "precise" | "findLimits", boolean>> &
  Partial<Record<"target" | "out", string>> & { iOwn?: string[] };

/** One fixed schedule, so that two calibrations can be compared. */
const SEED = 1;

/** Below this the search could not begin. */
const REQUESTS_LEAST = 200;

const EXIT_OF = { wrong: EXIT.usage, silent: EXIT.unreachable, missing: EXIT.unreachable } as const;

type Limits = { section: Section; document: object; calls: number; next: string | null; exitCode: number };

const closing = (exitCode: number, { target, iOwn = [] }: DoctorOptions, copy: string | null): string => {
  const own = iOwn.length === 0 ? "" : ` --i-own ${iOwn.join(" ")}`;
  if (copy !== null) return `Next: npx floodgate load chat-past-capacity --target ${copy}${own}`;
  const verdicts: Readonly<Record<number, string>> = {
    [EXIT.pass]: target === undefined ? "Nothing is missing." : `Next: npx floodgate verify --target ${target}${own}`,
    [EXIT.usage]: "The target file is wrong: see the lines that begin with wrong.",
    [EXIT.unreachable]: "See the lines that begin with silent or missing: that cannot be reached.",
    [EXIT.inconclusive]: "This machine does not measure time well enough just now: see the lines that begin with warn.",
    [EXIT.guarded]: "Refused by the safety guard; nothing was sent.",
  };
  return verdicts[exitCode] ?? "Stopped: what was found until then is above, and no copy was written.";
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

/** Looks for the deployment's limits and writes those that are found into a copy of its target file. */
const lookForLimits = async (file: string, copy: string, iOwn: readonly string[]): Promise<Limits> => {
  const prepared = await prepareTarget(file, iOwn, { load: true, faults: false, requests: REQUESTS_LEAST });
  const { target } = prepared;
  const lock = lockTarget(target.base_url);
  const stop = listenForStop((_, times) => {
    // Nothing of ours is left behind but the lock.
    lock.release();
    if (times > 1) process.exit(EXIT_OF_SIGNAL.SIGINT);
  });
  try {
    const onProgress = (text: string): void => printNote(`limits: ${text}`);
    const found = await findLimits({ ...prepared, signal: stop.signal, onProgress });
    const decided = decideLimits(found, target);
    const signal = stop.stoppedBy();
    const isWritten = signal === null && Object.keys(decided.limits).length > 0;
    if (isWritten) await writeCopy(file, copy, decided, target.exclusive === true);
    const unwritten = finding("skipped", "copy", `${copy} is not written`);
    const findings = [...decided.findings, isWritten ? copyFinding(copy, decided, target) : unwritten];
    return {
      section: { title: "Limits", findings },
      document: { ...decided.limits, calls: found.calls, copy: isWritten ? copy : null },
      calls: found.calls,
      next: isWritten && decided.isFixed && target.exclusive === true ? copy : null,
      exitCode: signal === null ? EXIT.pass : (EXIT_OF_SIGNAL[signal] ?? EXIT.inconclusive),
    };
  } finally {
    stop.release();
    lock.release();
  }
};

const doctor = async (options: DoctorOptions): Promise<void> => {
  const { target, iOwn = [], calibrate, precise = false } = options;
  if (precise) checkPrecise("open-loop");
  const copy = target === undefined || options.findLimits !== true ? null : copyOf(target, options.out);
  if (copy !== null) {
    checkPermitted((await readTargetFile(target as string)).target);
    await checkCopy(copy);
  }
  const diagnosis = target === undefined ? null : await diagnoseTarget(target, iOwn, judgedFields);
  const { signal } = new AbortController();
  const calibrated = calibrate === true ? await calibrateMachine({ seed: SEED, precise, signal }) : null;
  const sections = [
    await toolsHere(),
    await machineHere(REPOSITORY),
    ...(calibrated === null ? [] : [calibrationSection(calibrated.checks, calibrated.lacking, calibrated.ceilings)]),
    ...(diagnosis?.sections ?? []),
  ];
  const refused = diagnosis?.refusedByGuard ?? [];
  const worst = worstOf(sections);
  const isSound = worst === null && refused.length === 0;
  const limits = copy === null || !isSound ? null : await lookForLimits(target as string, copy, iOwn);
  if (limits !== null) sections.push(limits.section);
  const isMeasured = calibrated?.checks.every(({ verdict }) => verdict === "pass") ?? true;
  const ofFindings = worst !== null ? EXIT_OF[worst] : isMeasured ? EXIT.pass : EXIT.inconclusive;
  const exitCode = refused.length > 0 ? EXIT.guarded : worstExit(ofFindings, limits?.exitCode ?? EXIT.pass);
  const { spent } = diagnosis ?? {};
  const document = {
    ...{ schema: "floodgate/doctor@1", sections, refused_by_guard: refused },
    calibration: calibrated === null ? undefined : [...calibrated.checks, ...calibrated.ceilings],
    ...{ limits: limits?.document, spent, exit_code: exitCode },
  };
  const guard = refused.flatMap((reason) => wrapped(reason, "  refused  ", 11));
  const cost = spent && `Spent: ${spent.requests + (limits?.calls ?? 0)} calls, ${spent.map_loads} map loads.\n`;
  const end = `${cost ?? ""}${closing(exitCode, options, limits?.next ?? null)}`;
  const parts = [findingsText(sections), guard.join("\n"), end].filter((part) => part !== "");
  printShown(options.json, { document, lines: [parts.join("\n\n")] });
  process.exitCode = exitCode;
};

const EXCLUSIONS: readonly Exclusion[] = [
  ["precise", "!calibrate", "--precise changes how --calibrate measures; give both"],
  ["find-limits", "!target", "--find-limits calls a deployment; name its file with --target"],
  ["out", "!find-limits", "--out names the copy that --find-limits writes; give both"],
];

export const command = (): Command =>
  withOptions(excluding(new Command("doctor"), EXCLUSIONS), [
    ["--target <file>", "also try each role of this target file once (at most 60 calls)", once],
    I_OWN,
    ["--calibrate", "also play known delays and stalls to both drivers, and which rates ours holds (30 s)"],
    ["--precise", "calibrate the open-loop driver as load --precise uses it: it takes a whole core"],
    ["--find-limits", `find caps, slots, rate and burst by calls (${AT_MOST}), into a copy of the file`],
    ["--out <file>", "the copy that --find-limits writes (default: FILE.limits.json)", once],
    ["--json", "print what was found as JSON on stdout"],
  ])
    .description("look at tools, this machine and, with --target, a target file")
    .action(doctor);
