/**
 * The exit codes of every command, and which error or signal leads to which. No error leads to 1, because 1 is a verdict:
 * a broken claim, a regression or a surviving mutant.
 */

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
