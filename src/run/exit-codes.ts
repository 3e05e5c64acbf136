/**
 * The exit codes of every command, and which error or signal leads to which. No error leads to 1, because 1 is a verdict:
 * a broken claim, a regression or a surviving mutant.
 */
import { writePrivateFile } from "../supervision/private-file.ts";
import { fileProblem } from "../supervision/user-file.ts";

export const EXIT = {
  pass: 0,
  fail: 1,
  usage: 2,
  unreachable: 3,
  inconclusive: 4,
  guarded: 5,
} as const;

/** SIGHUP (a closed terminal) ends a run like SIGTERM. */
export const EXIT_OF_SIGNAL: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 };

/** Names of error classes; their files are loaded on demand, so they are not imported. */
const UNREACHABLE = ["ToolError", "TargetUnreachableError"];
const USAGE = [
  ...["CredentialMissingError", "ObjectiveError", "RoleOptionsError", "SecretError", "TargetBusyError"],
  ...["TargetFileError", "UnknownRuleError", "UsageError", "UserFileError"],
];

export class UsageError extends Error {
  override name = "UsageError";
}

/** Returns an error's exit code; a full disk and an unexpected error are inconclusive. */
export const exitCodeOf = (error: unknown): number => {
  const { name } = error instanceof Error ? error : { name: "" };
  if (name === "GuardError") return EXIT.guarded;
  if (UNREACHABLE.includes(name)) return EXIT.unreachable;
  return USAGE.includes(name) ? EXIT.usage : EXIT.inconclusive;
};

const ORDER: readonly number[] = [EXIT.guarded, EXIT.usage, EXIT.unreachable, EXIT.fail, EXIT.inconclusive, EXIT.pass];

/** Returns the worst of several codes; a signal's code comes before all others. */
export const worstExit = (...codes: readonly number[]): number =>
  codes.find((code) => !ORDER.includes(code)) ?? ORDER.find((code) => codes.includes(code)) ?? EXIT.inconclusive;

export const neverOver = (path: string): UsageError =>
  new UsageError(`${path} is there already and is not overwritten: name another file with --out, or move it`);

/** Writes a new file, readable by its owner only, since it may hold keys. Throws `UsageError`. `given`: as the user named it. */
export const writeNewJson = (path: string, value: unknown, given = path): Promise<void> =>
  writePrivateFile(path, `${JSON.stringify(value, null, 2)}\n`, { mayReplace: false }).catch(
    ({ code }: NodeJS.ErrnoException) => {
      if (code === "EEXIST") throw neverOver(given);
      throw new UsageError(`--out ${path}: expected a file that can be written (${code})`);
    },
  );

/** Runs `act`, which writes to a place that the user can name. Throws `UsageError` if the place is unusable. */
export const atPlace = <T>(what: string, act: () => T, option = ""): T => {
  try {
    return act();
  } catch (error) {
    const problem = fileProblem(error);
    if (problem === null) throw error;
    const sentence = `${what}: ${problem.sentence}`;
    throw problem.isLackOfRoom ? new Error(sentence) : new UsageError(`${sentence}; name another place${option}`);
  }
};
