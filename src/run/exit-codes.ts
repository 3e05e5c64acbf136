/** The exit codes of every command (interface.md section 1), and which error or signal stands for which. */
export const EXIT = {
  pass: 0,
  fail: 1,
  usage: 2,
  unreachable: 3,
  inconclusive: 4,
  guarded: 5,
} as const;

/** SIGHUP, a closed terminal, ends a run as SIGTERM does. */
export const EXIT_OF_SIGNAL: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 };

/** Errors that are somebody's mistake or absence, by name: their files are loaded on demand. */
const EXIT_OF_ERROR: Readonly<Record<string, number>> = {
  GuardError: EXIT.guarded,
  FixtureError: EXIT.unreachable,
  ToolError: EXIT.unreachable,
  TargetUnreachableError: EXIT.unreachable,
  TargetBusyError: EXIT.usage,
  RoleOptionsError: EXIT.usage,
  SecretError: EXIT.usage,
  TargetFileError: EXIT.usage,
  UnknownRuleError: EXIT.usage,
  UsageError: EXIT.usage,
  CredentialMissingError: EXIT.usage,
  ObjectiveError: EXIT.usage,
  NoRunError: EXIT.usage,
  CrashFileError: EXIT.usage,
};

/** What a user has to mend in what was asked for. */
export class UsageError extends Error {
  override name = "UsageError";
}

/** `null` for an error of ours; within a run the claims decide then, and one says that it did not come to its end. */
export const exitCodeOf = (error: unknown): number | null =>
  error instanceof Error ? (EXIT_OF_ERROR[error.name] ?? null) : null;
