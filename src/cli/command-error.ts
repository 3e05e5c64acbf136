/** A user's mistake or a missing tool, in sentences: what was expected, what came, what to do. Printed without a stack. */
export class CommandError extends Error {
  readonly exitCode: number;
  constructor(exitCode: number, message: string) {
    super(message);
    this.name = "CommandError";
    this.exitCode = exitCode;
  }
}
