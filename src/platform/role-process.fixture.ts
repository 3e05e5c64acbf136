/**
 * One role of a deployment in a process of its own, started as a user starts it (`floodgate serve`), for tests that kill it
 * and start it again on its ports.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Role, Urls } from "./start-role.ts";

const ENTRY = fileURLToPath(new URL("../cli/floodgate.mjs", import.meta.url));

export type RoleProcess = {
  urls: Urls;
  child: ChildProcess;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** On the same ports. */
  startAgain(): Promise<void>;
};

const portOf = (url: string | undefined): string => (url === undefined ? "0" : new URL(url).port);

export const startRoleProcess = async (role: Exclude<Role, "all">, more: readonly string[]): Promise<RoleProcess> => {
  const start = async (): Promise<void> => {
    const { api, keys, limiter, control } = running.urls;
    const ports = ["--port", portOf(api ?? keys ?? limiter), "--control-port", portOf(control?.[role])];
    const child = spawn(process.execPath, [ENTRY, "serve", "--role", role, "--log-level", "error", ...ports, ...more], {
      stdio: ["pipe", "pipe", "inherit"],
      env: {
        ...process.env,
        FLOODGATE_SESSION_SECRET: "a session secret for tests",
        FLOODGATE_ADMIN_SECRET: "an admin secret for tests",
        // Each ends with the test, whatever becomes of it.
        FLOODGATE_END_WITH_STDIN: "1",
      },
    });
    running.child = child;
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      running.urls = JSON.parse(line);
      return;
    }
    throw new Error(`expected --role ${role} to tell its URLs, got the end of its output`);
  };
  const running = {
    urls: {} as Urls,
    child: undefined as unknown as ChildProcess,
    kill: async () => {
      if (running.child.exitCode !== null || running.child.signalCode !== null) return;
      running.child.kill("SIGKILL");
      await once(running.child, "exit");
    },
    startAgain: start,
  };
  await start();
  return running;
};
