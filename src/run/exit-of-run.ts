/** Exit codes where not the claims decide (interface.md section 1). */
import { FixtureError } from "./fixtures.ts";

/** SIGHUP, a closed terminal, ends a run as SIGTERM does. */
export const EXIT_OF_SIGNAL: Readonly<Record<string, number>> = { SIGINT: 130, SIGTERM: 143, SIGHUP: 143 };

const EXIT_USAGE = 2;
const EXIT_UNREACHABLE = 3;

/** By name, because the classes stand on floors of their own. */
const EXIT_OF_ERROR: Readonly<Record<string, number>> = {
  SecretError: EXIT_USAGE,
  UnknownRuleError: EXIT_USAGE,
  UsageError: EXIT_USAGE,
  CredentialMissingError: EXIT_USAGE,
  ToolError: EXIT_UNREACHABLE,
  TargetUnreachableError: EXIT_UNREACHABLE,
};

/** `null`: the claims decide, and one of them says that the run did not come to its end. */
export const exitCodeOf = (error: unknown): number | null => {
  if (error instanceof FixtureError) return EXIT_UNREACHABLE;
  return error instanceof Error ? (EXIT_OF_ERROR[error.name] ?? null) : null;
};
