/** `floodgate doctor`: which tools are there, what this machine can measure, and what a target file is worth. */
import { Command } from "commander";
import { diagnoseTarget, type TargetDiagnosis } from "../diagnosis/diagnose-target.ts";
import { type Section, worstOf } from "../diagnosis/finding.ts";
import { machineHere } from "../diagnosis/machine.ts";
import { toolsHere } from "../diagnosis/tools-here.ts";
import { REPOSITORY } from "../run/environment.ts";
import { redact, redactor } from "../supervision/redaction.ts";
import { CommandError, EXIT } from "./exit-codes.ts";
import { findingsText, wrapped } from "./findings-text.ts";

type DoctorOptions = { target?: string; iOwn?: string[]; json?: boolean; calibrate?: boolean };

const EXIT_OF = { wrong: EXIT.usage, silent: EXIT.unreachable, missing: EXIT.unreachable } as const;

const exitOf = (sections: readonly Section[], refused: readonly string[]): number => {
  if (refused.length > 0) return EXIT.guarded;
  const worst = worstOf(sections);
  return worst === null ? EXIT.pass : EXIT_OF[worst];
};

const closing = (exitCode: number, { target, iOwn = [] }: DoctorOptions, diagnosis: TargetDiagnosis | null): string => {
  const own = iOwn.length === 0 ? "" : ` --i-own ${iOwn.join(" ")}`;
  const owned =
    diagnosis === null ? [] : [`Spent: ${diagnosis.spent.requests} calls, ${diagnosis.spent.map_loads} map loads.`];
  const verdicts: Readonly<Record<number, string>> = {
    [EXIT.pass]: target === undefined ? "Nothing is missing." : `Next: npx floodgate verify --target ${target}${own}`,
    [EXIT.usage]: "The target file is wrong: see the lines that begin with wrong.",
    [EXIT.unreachable]: "See the lines that begin with silent or missing: that cannot be reached.",
    [EXIT.guarded]: "Refused by the safety guard; nothing was sent.",
  };
  return [...owned, verdicts[exitCode] ?? ""].join("\n");
};

const doctor = async (options: DoctorOptions): Promise<void> => {
  if (options.calibrate === true) {
    throw new CommandError(
      EXIT.usage,
      "--calibrate is not built yet: doctor reads what the machine says of itself and measures no load; leave the option out",
    );
  }
  const diagnosis = options.target === undefined ? null : await diagnoseTarget(options.target, options.iOwn ?? []);
  const sections = [await toolsHere(), await machineHere(REPOSITORY), ...(diagnosis?.sections ?? [])];
  const refused = diagnosis?.refusedByGuard ?? [];
  const exitCode = exitOf(sections, refused);
  if (options.json === true) {
    const document = {
      schema: "floodgate/doctor@1",
      sections,
      refused_by_guard: refused,
      ...(diagnosis === null ? {} : { spent: diagnosis.spent }),
      exit_code: exitCode,
    };
    process.stdout.write(`${JSON.stringify(redactor.redactValue(document), null, 2)}\n`);
  } else {
    const guard = refused.flatMap((reason) => wrapped(reason, "  refused  ", 11));
    const parts = [findingsText(sections), ...(guard.length === 0 ? [] : [guard.join("\n")])];
    process.stdout.write(`${redact([...parts, closing(exitCode, options, diagnosis)].join("\n\n"))}\n`);
  }
  process.exitCode = exitCode;
};

export const doctorCommand = (): Command =>
  new Command("doctor")
    .description("look at tools, this machine and, with --target, a target file")
    .option("--target <file>", "also try each role of this target file once (at most 60 calls)")
    .option("--i-own <host...>", "hosts that are yours, each that is not loopback")
    .option("--calibrate", "measure what this machine can load (not built yet)")
    .option("--json", "print what was found as JSON on stdout")
    .action(doctor);
