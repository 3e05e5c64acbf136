/**
 * Takes a side effect back, without anything of the process that did it. The watchdog was handed what to do by the run, through
 * its pipe; `chaos --heal` works it out from names in the journal and the target file (faults/undo-by-name.ts).
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { endGroup, signalProcess } from "./processes.ts";
import { runShellCommand } from "./shell-command.ts";
import type { ChangeUndo, CommandUndo, ProxyUndo, Undo } from "./undo.ts";
import { pause } from "./waiting.ts";

type CallLimits = { signal: AbortSignal; callMs: number };

/** Ways to what is outside, each says what it did; handed in by who knows proxies and control planes (faults/take-back.ts). */
export type TakeBack = {
  proxy(undo: ProxyUndo, limits: CallLimits): Promise<string>;
  change(undo: ChangeUndo, limits: CallLimits): Promise<string>;
};

export type UndoLimits = {
  takeBack: TakeBack;
  /** What heal commands find in their environment; this process's own where absent. */
  env?: NodeJS.ProcessEnv;
  /** A heal command that fails is run again until the signal fires, after pauses of so many milliseconds. */
  againMs?: number;
  /** Ends the attempt. */
  signal: AbortSignal;
  /** Deadline of each control call to toxiproxy, in milliseconds. */
  callMs: number;
  /** Between SIGTERM and SIGKILL. */
  graceMs: number;
};

/** What it did, in a few words. Throws a sentence when the side effect is still there. */
export const carryOut = async (undo: Undo, limits: UndoLimits): Promise<string> => {
  const { takeBack, signal, callMs, graceMs } = limits;
  switch (undo.how) {
    case "all": {
      const did: string[] = [];
      const troubles: string[] = [];
      for (const one of [...undo.undos].reverse()) {
        await carryOut(one, limits).then(
          (what) => did.push(what),
          (error: Error) => troubles.push(error.message),
        );
      }
      if (troubles.length > 0) throw new Error(troubles.join("; "));
      return did.join(", ");
    }
    case "nothing":
      return "nothing to take back";
    case "signal":
      return signalProcess(undo, undo.signal) ? `sent ${undo.signal}` : "the process is gone";
    case "end-process": {
      const ended = await endGroup(undo, graceMs);
      if (ended === "still there") throw new Error(`process ${undo.pid} is still there after SIGKILL`);
      return ended;
    }
    case "remove-lock":
    case "remove-folder": {
      if (!existsSync(undo.path)) return "was gone";
      await rm(undo.path, { recursive: true, force: true, maxRetries: 3 });
      return "removed";
    }
    case "command":
      return await runCommands(undo, limits);
    case "heal-proxy":
      return await takeBack.proxy(undo, { signal, callMs });
    case "deployment":
      return await takeBack.change(undo, { signal, callMs });
  }
};

const runCommands = async ({ commands, cwd }: CommandUndo, limits: UndoLimits): Promise<string> => {
  const { signal, env, againMs } = limits;
  for (;;) {
    try {
      for (const command of commands) {
        await runShellCommand(command, { what: "heal command", signal, cwd, ...(env === undefined ? {} : { env }) });
      }
      return `ran ${commands.length} heal command(s)`;
    } catch (error) {
      if (againMs === undefined) throw error;
      await pause(againMs, signal);
      if (signal.aborted) throw error;
    }
  }
};
