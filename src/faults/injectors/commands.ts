/** Injects and heals by the commands of the target file (`faults`). Healing is tried once before the injection. */
import type { Deployment } from "../../deployments/deployment.ts";
import { runShellCommand } from "../../supervision/child.ts";
import type { CommandUndo } from "../../supervision/undo.ts";
import { targetName } from "../../target/target-urls.ts";
import type { DisturbanceContext } from "../disturbance.ts";
import { type Fault, type FaultInjector, faultKey, TIMES } from "../fault.ts";
import { linkBudgetMs } from "../link-faults.ts";
import { PROBE_OVER_BUDGET_MS, watchLink } from "./link.ts";

/** `status` exits with 0 while the fault is in force, with 1 while it is not. */
export type FaultCommands = { inject: readonly string[]; heal: readonly string[]; status?: string };

/** `onSpawn` supervises each command: an inject command that outlives the runner could break things again. */
export const byCommands = (
  { inject, heal, status }: FaultCommands,
  { cwd, onSpawn }: { cwd: string; onSpawn(pid: number): () => void },
) => {
  const run = async (commands: readonly string[], what: string, signal: AbortSignal): Promise<void> => {
    for (const command of commands) {
      const forgets: (() => void)[] = [];
      const spawned = (pid: number): void => void forgets.push(onSpawn(pid));
      await runShellCommand(command, { what, cwd, signal, onSpawn: spawned }).finally(() => forgets[0]?.());
    }
  };
  /** `unknown`: no status command, or it failed. */
  const look = async (signal: AbortSignal): Promise<"in" | "out" | "unknown"> => {
    if (status === undefined) return "unknown";
    try {
      await run([status], "status command", signal);
      return "in";
    } catch (error) {
      // Other exit codes mean that the status command could not tell.
      return (error as Error).cause === 1 ? "out" : "unknown";
    }
  };
  const requireOut = async (signal: AbortSignal, otherwise: string): Promise<void> => {
    if ((await look(signal)) === "in") throw new Error(`the status command says that the fault is ${otherwise}`);
  };
  return {
    status: look,
    inject: async (signal: AbortSignal): Promise<void> => {
      await requireOut(signal, "already in force; `floodgate chaos --heal` removes old faults");
      await run(inject, "inject command", signal);
    },
    heal: async (signal: AbortSignal): Promise<string[]> => {
      await run(heal, "heal command", signal);
      await requireOut(signal, "still in force after healing");
      return [`${heal.length} heal command(s)`];
    },
  };
};

const BY_CALLERS = { shows: null, notes: ["injected by commands: the effect is judged by what callers see"] };

/** Shows the effect through the named proxy if it can be reached; otherwise callers have to see it. */
const effectOf = async (
  { component }: Fault,
  { faults, target }: Deployment,
): Promise<Pick<FaultInjector, "shows" | "notes">> => {
  if (component === "api" || component === "service") return BY_CALLERS;
  const way = faults?.links[component];
  const giveUpMs = linkBudgetMs(component, target.limits) + PROBE_OVER_BUDGET_MS;
  const watch = way === undefined ? null : await watchLink(way.listen, giveUpMs);
  if (watch === null) return BY_CALLERS;
  return {
    shows: async () => watch.isChanged(await watch.look()),
    notes: [`injected by commands: the effect is seen through the proxy "${way?.proxy}"`],
  };
};

/** Returns `null` if the target file has no commands for the fault. */
export const commandInjector = async (
  fault: Fault,
  { context, deployment }: DisturbanceContext,
): Promise<FaultInjector | null> => {
  const key = faultKey(fault);
  const commands = deployment.target.faults?.[key];
  if (commands === undefined) return null;
  const cwd = deployment.folder;
  const onSpawn = (pid: number) => context.supervisor.adopt(`a command of faults.${key}`, pid);
  const { inject, heal } = byCommands(commands, { cwd, onSpawn });
  // Proves that healing works before anything is broken.
  await heal(AbortSignal.any([context.signal, AbortSignal.timeout(TIMES.healMs)])).catch((error: Error) => {
    throw new Error(
      `faults.${key}: nothing was injected, because the heal commands failed beforehand: ${error.message}`,
    );
  });
  const target = targetName(deployment.target, deployment.file);
  const undo: CommandUndo = { how: "command", fault: key, target, commands: [...commands.heal], cwd };
  return { inject, heal, undo, stream: "both", ...TIMES, ...(await effectOf(fault, deployment)) };
};
