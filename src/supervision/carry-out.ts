/**
 * Takes a side effect back from what the journal says of it, without anything of the process that did it. Used by the
 * watchdog and by `chaos --heal`.
 */
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { endGroup, signalProcess } from "./processes.ts";
import { runShellCommand } from "./shell-command.ts";
import type { Undo } from "./undo.ts";

/** Takes back what was done to a proxy, and says what it did; handed in by who knows the proxy (chaos/take-back-proxy.ts). */
export type TakeBackProxy = (
  undo: Extract<Undo, { how: "heal-proxy" | "remove-proxy" }>,
  limits: { signal: AbortSignal; callMs: number },
) => Promise<string>;

export type UndoLimits = {
  takeBackProxy: TakeBackProxy;
  /** Ends the attempt. */
  signal: AbortSignal;
  /** Deadline of each control call to toxiproxy, in milliseconds. */
  callMs: number;
  /** Between SIGTERM and SIGKILL. */
  graceMs: number;
};

/** What it did, in a few words. Throws a sentence when the side effect is still there. */
export const carryOut = async (undo: Undo, limits: UndoLimits): Promise<string> => {
  const { takeBackProxy, signal, callMs, graceMs } = limits;
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
    case "remove-folder": {
      if (!existsSync(undo.path)) return "was gone";
      await rm(undo.path, { recursive: true, force: true, maxRetries: 3 });
      return "removed";
    }
    case "command": {
      const cwd = undo.cwd === undefined ? {} : { cwd: undo.cwd };
      for (const command of undo.commands) await runShellCommand(command, { what: "heal command", signal, ...cwd });
      return `ran ${undo.commands.length} heal command(s)`;
    }
    case "heal-proxy":
    case "remove-proxy":
      return takeBackProxy(undo, { signal, callMs });
  }
};
