/** A deployment's own way to break and mend a dependency: the commands that its target file names under `faults`. */
import { CommandFailedError, runShellCommand } from "../supervision/shell-command.ts";
import type { CommandUndo } from "../supervision/undo.ts";
import type { FaultPort } from "./fault-port.ts";

export type FaultCommands = {
  inject: readonly string[];
  heal: readonly string[];
  /** Ends with 0 while the fault is in, with 1 while it is not. */
  status?: string;
};

type CommandFault = FaultCommands & {
  /** The folder that the commands run in. */
  cwd: string;
  /** For supervision: an inject command that outlives the runner could break what was healed already. */
  onSpawn(pid: number): () => void;
};

export const undoByCommand = (
  { heal, cwd }: Pick<CommandFault, "heal" | "cwd">,
  named: Pick<CommandUndo, "fault" | "target">,
): CommandUndo => ({ how: "command", ...named, commands: [...heal], cwd });

const run = async (command: string, what: string, { cwd, onSpawn }: CommandFault, signal: AbortSignal) => {
  let forget = (): void => undefined;
  try {
    await runShellCommand(command, { what, cwd, signal, onSpawn: (pid) => (forget = onSpawn(pid)) });
  } finally {
    forget();
  }
};

const runAll = async (
  commands: readonly string[],
  what: string,
  fault: CommandFault,
  signal: AbortSignal,
): Promise<void> => {
  for (const command of commands) await run(command, what, fault, signal);
};

/** As `linkSteps` has them for a proxy. */
export const commandSteps = (fault: CommandFault): FaultPort => {
  const status: FaultPort["status"] = async (signal) => {
    if (fault.status === undefined) return "unknown";
    try {
      await run(fault.status, "status command", fault, signal);
      return "in";
    } catch (error) {
      // Anything but 0 and 1 is a command that could not look.
      return error instanceof CommandFailedError && error.code === 1 ? "out" : "unknown";
    }
  };
  return {
    status,
    inject: async (signal) => {
      if ((await status(signal)) === "in") {
        throw new Error("by its status command the fault is in already; `floodgate chaos --heal` removes old faults");
      }
      await runAll(fault.inject, "inject command", fault, signal);
    },
    heal: async (signal) => {
      await runAll(fault.heal, "heal command", fault, signal);
      if ((await status(signal)) === "in") throw new Error("by its status command the fault is still in after healing");
      return [`${fault.heal.length} heal command(s)`];
    },
  };
};

/** That healing works is known before anything is broken. Throws a sentence when it does not. */
export const rehearseHealing = async (fault: CommandFault, signal: AbortSignal): Promise<void> =>
  void (await commandSteps(fault).heal(signal));
