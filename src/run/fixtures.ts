/** `fixtures.reset` and `fixtures.provision` of a target file: commands that prepare a deployment, run before a run. */
import { execFile } from "node:child_process";
import { dirname } from "node:path";
import { redactor } from "../supervision/redaction.ts";
import type { PreparedTarget } from "./prepare-target.ts";
import type { RunContext } from "./run-context.ts";

/** A command of `fixtures` did not end well, so nothing is known of the deployment's state. */
export class FixtureError extends Error {
  override name = "FixtureError";
}

const LIMIT_MS = 300_000;

const runCommand = (command: string, cwd: string, signal: AbortSignal): Promise<string> =>
  new Promise((resolve, reject) => {
    const options = { cwd, timeout: LIMIT_MS, maxBuffer: 1 << 22, signal };
    execFile("/bin/sh", ["-c", command], options, (error, stdout, stderr) => {
      const said = redactor.redact(`${stdout}${stderr}`);
      if (error === null) resolve(said);
      else {
        const why = error.killed ? `it did not end within ${LIMIT_MS / 1000} s` : `it ended with ${error.code}`;
        reject(new FixtureError(`${why}: ${said.trim().split("\n").slice(-3).join(" ")}`));
      }
    });
  });

/** Reset first, so that what is provisioned stays. The output goes to `logs/`. */
export const prepareFixtures = async (context: RunContext, { file, target }: PreparedTarget): Promise<void> => {
  for (const name of ["reset", "provision"] as const) {
    const command = target.fixtures?.[name]?.replace(/^exec:/, "");
    if (command === undefined) continue;
    context.events.step(`fixtures.${name} of ${file}`);
    const id = context.journal.about({
      kind: "fixture",
      name: `fixtures.${name}`,
      undo: { how: "nothing" },
      detail: command,
    });
    try {
      const said = await runCommand(command, dirname(file), context.signal);
      await context.folder.writeText(`logs/fixtures-${name}.log`, said);
      context.journal.undone(id, "done");
    } catch (error) {
      throw new FixtureError(
        `fixtures.${name} of ${file}: expected the command to end with 0, but ${(error as Error).message}`,
      );
    }
  }
};
