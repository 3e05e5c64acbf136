/**
 * Undoes side effects without the process that did them: the watchdog got what to do through its pipe; `chaos --heal`
 * works it out from names in the journal and the target file (faults/undo-by-name.ts).
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import type { Effect, Notes } from "./journal.ts";
import { endGroup, signalProcess } from "./processes.ts";
import { runShellCommand } from "./shell-command.ts";
import type { ChangeUndo, CommandUndo, ProxyUndo, Undo } from "./undo.ts";
import { pause } from "./waiting.ts";

type CallLimits = { signal: AbortSignal; callMs: number };

/** What knows proxies and control planes, handed in (faults/healing.ts); each returns what it did. */
export type UndoPorts = {
  proxy(undo: ProxyUndo, limits: CallLimits): Promise<string>;
  change(undo: ChangeUndo, limits: CallLimits): Promise<string>;
};

/** `signal` ends the attempt; `callMs` is the deadline of each control call. */
type UndoLimits = CallLimits & {
  ports: UndoPorts;
  /** What heal commands find in their environment (default: this process's own). */
  env?: NodeJS.ProcessEnv;
  /** A heal command that fails is run again until the signal fires, after pauses of so many milliseconds. */
  againMs?: number;
  graceMs: number;
};

/** What it did, in a few words. Throws a sentence when the side effect is still there. */
export const runUndo = async (undo: Undo, limits: UndoLimits): Promise<string> => {
  switch (undo.how) {
    case "all": {
      const did: string[] = [];
      const troubles: string[] = [];
      for (const one of [...undo.undos].reverse()) {
        await runUndo(one, limits).then(
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
      const ended = await endGroup(undo, limits.graceMs);
      if (ended === "still there") throw new Error(`process ${undo.pid} is still there after SIGKILL`);
      return ended;
    }
    case "remove-lock":
    case "remove-folder":
      if (!existsSync(undo.path)) return "was gone";
      await rm(undo.path, { recursive: true, force: true, maxRetries: 3 });
      return "removed";
    case "command":
      return await runCommands(undo, limits);
    case "heal-proxy":
      return await limits.ports.proxy(undo, limits);
    case "deployment":
      return await limits.ports.change(undo, limits);
  }
};

const runCommands = async ({ commands, cwd }: CommandUndo, limits: UndoLimits): Promise<string> => {
  const { signal, env = process.env, againMs } = limits;
  for (;;) {
    try {
      for (const command of commands) await runShellCommand(command, { what: "heal command", signal, cwd, env });
      return `ran ${commands.length} heal command(s)`;
    } catch (error) {
      if (againMs === undefined) throw error;
      await pause(againMs, signal);
      if (signal.aborted) throw error;
    }
  }
};

/** `did`: what was done, or `null` with the `trouble`; the effect then stays open. */
export type UndoResult = { kind: string; name: string; did: string | null; trouble: string | null };

const isLast = ({ undo }: Effect): boolean =>
  undo.how === "remove-folder" || undo.how === "remove-lock" || (undo.how === "end-process" && undo.end_last);

/** Faults and load at the same time, then what carries the links and what they wrote. Never rejects because of one effect. */
export const undoAll = async (
  effects: readonly Effect[],
  notes: Notes | null,
  limits: UndoLimits,
): Promise<UndoResult[]> => {
  const undoOne = async (effect: Effect): Promise<UndoResult> => {
    const about = { kind: effect.kind, name: effect.name };
    const result = await runUndo(effect.undo, limits).then(
      (did) => ({ ...about, did, trouble: null }),
      ({ message }: Error) => ({ ...about, did: null, trouble: message }),
    );
    try {
      if (result.did !== null) notes?.write(effect, "undone", result.did);
      else notes?.write(effect, "about", `not taken back: ${result.trouble}`);
    } catch {
      // A full disk must not keep the other faults in.
    }
    return result;
  };
  const first = await Promise.all(effects.filter((effect) => !isLast(effect)).map(undoOne));
  return [...first, ...(await Promise.all(effects.filter(isLast).map(undoOne)))];
};
