/**
 * The platform in a process of its own, started as a user starts it (`floodgate serve`), for tests that stop it, kill it, start
 * it again on its ports, or look at what its options do.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Urls } from "./start-role.ts";

export const ENTRY = fileURLToPath(new URL("../cli/floodgate.mjs", import.meta.url));

export type ServeProcess = {
  urls: Urls;
  child: ChildProcess;
  /** SIGTERM; resolves with the exit code when the process is gone. */
  stop(): Promise<number | null>;
  /** SIGKILL; resolves when the process is gone. */
  kill(): Promise<void>;
  /** The same once more, on the ports that it had. */
  startAgain(): Promise<void>;
};

const ENVIRONMENT = {
  FLOODGATE_SESSION_SECRET: "a session secret for tests",
  FLOODGATE_ADMIN_SECRET: "an admin secret for tests",
  FLOODGATE_CONTROL_TOKEN: "a-control-token-for-tests",
  // Each ends with the test, whatever becomes of it.
  FLOODGATE_END_WITH_STDIN: "1",
};

/** What its control planes are sent with every request. */
export const OPERATOR = {
  authorization: `Bearer ${ENVIRONMENT.FLOODGATE_CONTROL_TOKEN}`,
  "content-type": "application/json",
};

/** Resolves when it listens. `args` are options of `serve`; ports are chosen by the system unless they name some. */
export const startServe = async (
  args: readonly string[],
  environment: Readonly<Record<string, string>> = {},
): Promise<ServeProcess> => {
  const launch = async (...ports: string[]): Promise<void> => {
    const words = [ENTRY, "serve", "--log-level", "error", "--control-port", "0", ...args, ...ports];
    const child = spawn(process.execPath, words, {
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...process.env, ...ENVIRONMENT, ...environment },
    });
    running.child = child;
    for await (const line of createInterface({ input: child.stdout as NodeJS.ReadableStream })) {
      running.urls = JSON.parse(line);
      return;
    }
    throw new Error(`expected serve ${args.join(" ")} to print its URLs, got the end of its output`);
  };
  const end = async (signal: NodeJS.Signals): Promise<number | null> => {
    const { child } = running;
    if (child.exitCode === null && child.signalCode === null) {
      child.kill(signal);
      await once(child, "exit");
    }
    return child.exitCode;
  };
  const running = {
    urls: {} as Urls,
    child: undefined as unknown as ChildProcess,
    stop: () => end("SIGTERM"),
    kill: async () => void (await end("SIGKILL")),
    startAgain: async () => {
      const { api, keys, limiter, control } = running.urls;
      const portOf = (url: string | undefined): string => (url === undefined ? "0" : new URL(url).port);
      const [plane] = Object.values(control ?? {});
      await launch("--port", portOf(api ?? keys ?? limiter), "--control-port", portOf(plane));
    },
  };
  await launch();
  return running;
};
