/** `fixtures.reset` and `fixtures.provision` of a target file: commands that prepare a deployment, run before a run. */
import { dirname } from "node:path";
import type { RunContext } from "../deployments/run-context.ts";
import type { PreparedTarget } from "../stages/prepare-target.ts";
import { runShellCommand } from "../supervision/bounded-child.ts";

/** A command of `fixtures` did not end well, so nothing is known of the deployment's state. */
class FixtureError extends Error {
  override name = "FixtureError";
}

const LIMIT_MS = 300_000;

/** Reset first, so that what is provisioned stays. The output goes to `logs/`. */
export const prepareFixtures = async (context: RunContext, { file, target }: PreparedTarget): Promise<void> => {
  for (const name of ["reset", "provision"] as const) {
    const command = target.fixtures?.[name];
    if (command === undefined || command === null) continue;
    context.events.step(`fixtures.${name} of ${file}`);
    const id = context.journal.about({
      kind: "fixture",
      name: `fixtures.${name}`,
      undo: { how: "nothing" },
      detail: command,
    });
    try {
      const { signal } = context;
      let said = "";
      await runShellCommand(command, {
        what: `command of fixtures.${name}`,
        cwd: dirname(file),
        signal: AbortSignal.any([signal, AbortSignal.timeout(LIMIT_MS)]),
        onOutput: (text) => {
          said += text;
        },
      });
      await context.folder.writeText(`logs/fixtures-${name}.log`, said);
      context.journal.undone(id, "done");
    } catch (error) {
      throw new FixtureError(
        `fixtures.${name} of ${file}: expected the command to end with 0: ${(error as Error).message}`,
      );
    }
  }
};
