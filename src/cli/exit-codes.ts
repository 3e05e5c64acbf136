/** Exit codes (interface.md section 1; those of signals are in `run/exit-of-run.ts`), and the error that carries one up to `main`. */
export const EXIT = {
  pass: 0,
  fail: 1,
  usage: 2,
  unreachable: 3,
  inconclusive: 4,
  guarded: 5,
} as const;

/** A user's mistake or a missing tool, in sentences: what was expected, what came, what to do. Printed without a stack. */
export class CommandError extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.name = "CommandError";
    this.exitCode = exitCode;
  }
}
