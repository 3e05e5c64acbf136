/**
 * Takes a side effect back from what the journal says of it, without anything of the process that did it. Used by the
 * watchdog and by `chaos --heal`.
 */
import { spawn } from "node:child_process";
import { existsSync } from "node:fs";
import { rm } from "node:fs/promises";
import { endGroup, signalProcess } from "./processes.ts";
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

/** In a group of its own, so that a shell that is cut off leaves nothing running. */
const runCommand = (command: string, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const child = spawn("/bin/sh", ["-c", command], { detached: true, stdio: ["ignore", "ignore", "pipe"] });
    let said = "";
    child.stderr.on("data", (chunk: Buffer) => {
      said = (said + chunk.toString()).slice(-300);
    });
    const fail = (why: string): void => reject(new Error(`the heal command failed (${why}): ${said.trim()}`));
    const cutOff = (): void => {
      try {
        if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
      } catch {
        // It ended in between.
      }
      fail("not done in time");
    };
    if (signal.aborted) return cutOff();
    signal.addEventListener("abort", cutOff, { once: true });
    child.once("error", (error) => fail(error.message));
    child.once("close", (code) => {
      signal.removeEventListener("abort", cutOff);
      if (code === 0) resolve();
      else fail(`exit code ${code}`);
    });
  });

/** What it did, in a few words. Throws a sentence when the side effect is still there. */
export const carryOut = async (undo: Undo, { takeBackProxy, signal, callMs, graceMs }: UndoLimits): Promise<string> => {
  switch (undo.how) {
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
      for (const command of undo.commands) await runCommand(command.replace(/^exec:/, ""), signal);
      return `ran ${undo.commands.length} heal command(s)`;
    }
    case "heal-proxy":
    case "remove-proxy":
      return takeBackProxy(undo, { signal, callMs });
  }
};
