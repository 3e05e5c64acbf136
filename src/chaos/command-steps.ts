/** A deployment's own way to break and mend a dependency: the commands that its target file names under `faults`. */
import { runShellCommand } from "../supervision/shell-command.ts";
import type { Undo } from "../supervision/undo.ts";
import type { ExperimentSteps } from "./experiment.ts";

type FaultCommands = { inject: readonly string[]; heal: readonly string[] };

type CommandFault = FaultCommands & {
  /** The folder that the commands run in. */
  cwd: string;
  /** For supervision: an inject command that outlives the runner could break what was healed already. */
  onSpawn(pid: number): () => void;
};

export const undoByCommand = ({ heal, cwd }: Pick<CommandFault, "heal" | "cwd">): Undo => ({
  how: "command",
  commands: [...heal],
  cwd,
});

const runAll = async (
  commands: readonly string[],
  what: string,
  { cwd, onSpawn }: CommandFault,
  signal: AbortSignal,
): Promise<void> => {
  for (const command of commands) {
    let forget = (): void => undefined;
    try {
      await runShellCommand(command, { what, cwd, signal, onSpawn: (pid) => (forget = onSpawn(pid)) });
    } finally {
      forget();
    }
  }
};

/** Inject and heal, as `linkSteps` has them for a proxy. The effect shows with the deployment's callers alone. */
export const commandSteps = (fault: CommandFault): Pick<ExperimentSteps, "inject" | "heal"> => ({
  inject: (signal) => runAll(fault.inject, "inject command", fault, signal),
  heal: async (signal) => {
    await runAll(fault.heal, "heal command", fault, signal);
    return [`${fault.heal.length} heal command(s)`];
  },
});

/** That healing works is known before anything is broken. Throws a sentence when it does not. */
export const rehearseHealing = (fault: CommandFault, signal: AbortSignal): Promise<void> =>
  runAll(fault.heal, "heal command", fault, signal);
