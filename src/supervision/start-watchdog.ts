/** The runner's end of the watchdog: starts it before anything else, and tells it when the run has ended in order. */
import { type ChildProcess, spawn } from "node:child_process";
import { resolve } from "node:path";
import type { Keeper } from "./journal.ts";
import { RUN_MARK } from "./processes.ts";
import { pause } from "./waiting.ts";
import { BYE, type WatchdogMessage } from "./watchdog.ts";

const READY_MS = 15_000;

/**
 * What the watchdog itself needs. Whatever else a CI job put into the environment stays behind: a runner's clean-up ends every
 * process that carries its number there, and the watchdog has to outlive the job for as long as healing takes.
 */
const NEEDS = [
  ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"],
  ...["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "FLOODGATE_CONTROL_TOKEN"],
];
/** By these alone a clean-up knows the processes of its job (GitHub, Azure, Jenkins); heal commands may need all the rest. */
const OF_JOB = [
  ...["RUNNER_TRACKING_ID", "VSTS_PROCESS_LOOKUP_ID"],
  ...["JENKINS_NODE_COOKIE", "JENKINS_SERVER_COOKIE", "HUDSON_COOKIE", "HUDSON_SERVER_COOKIE"],
];

const environmentOf = (names: readonly string[]): NodeJS.ProcessEnv =>
  Object.fromEntries(names.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])));

export type Watchdog = Keeper & {
  readonly pid: number;
  /** Whether it is still there; one that ended early no longer protects anything. */
  isThere: () => boolean;
  /** All is in order: it goes at once. */
  bye: () => Promise<void>;
  /** Something was left behind: it takes it back as if the runner had died. Resolves when it has ended. */
  takeOver: () => Promise<void>;
};

const untilReady = (child: ChildProcess): Promise<void> =>
  new Promise((resolve, reject) => {
    const fail = (why: string): void => reject(new Error(`the watchdog did not start: ${why}; nothing was started`));
    const timer = setTimeout(() => fail(`no sign of life within ${READY_MS} ms`), READY_MS);
    child.once("error", (error) => fail(error.message));
    child.once("exit", (code) => fail(`it ended with ${code}`));
    child.stdout?.once("data", () => {
      clearTimeout(timer);
      child.removeAllListeners("exit");
      resolve();
    });
  });

/** `entry`: the file that calls `guardRunner`. Throws a sentence when it does not start: without it nothing may be started. */
export const startWatchdog = async (entry: string, journalPath: string, mark: string): Promise<Watchdog> => {
  const child = spawn(process.execPath, [entry, resolve(journalPath), mark], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
    env: environmentOf(NEEDS),
    // The folder of a job may be removed under it.
    cwd: "/",
  });
  child.stdin.on("error", () => {});
  child.stdout.on("error", () => {});
  try {
    await untilReady(child);
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
  const tell = (message: WatchdogMessage, read?: () => void): void =>
    void child.stdin.write(`${JSON.stringify(message)}\n`, read);
  const { env } = process;
  const unwanted = [...OF_JOB, RUN_MARK];
  const wanted = environmentOf(Object.keys(env).filter((name) => !unwanted.includes(name)));
  await new Promise<void>((read) => tell({ env: wanted }, read));
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  // It must not keep a runner alive that has nothing else to do.
  child.unref();
  for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref: () => void }).unref();
  /** Faults and signals that it was told of: what was broken before it ended is still noted and healed by the run. */
  const kept = new Set<string>();
  const isThere = (): boolean => child.exitCode === null && child.signalCode === null;
  const gone = async (forMs: number): Promise<void> => {
    if (!isThere()) return;
    child.ref();
    const inTime = new AbortController();
    await Promise.race([exited, pause(forMs, inTime.signal)]);
    inTime.abort();
    if (isThere()) child.kill("SIGKILL");
  };
  return {
    pid: child.pid as number,
    isThere,
    keep: (effect) => {
      const isFault = effect.kind === "fault" || effect.kind === "signal";
      if (isFault && !kept.has(effect.id)) {
        // A runner that is killed now would leave it broken.
        if (!isThere()) throw new Error(`the watchdog has ended: "${effect.name}" must not be done without one`);
        kept.add(effect.id);
      }
      tell({ keep: effect });
      // A pipe takes a line at once, or its other end has stopped reading; then the line would die with this process.
      if (isThere() && child.stdin.writableLength > 0) {
        throw new Error(`the watchdog does not read: "${effect.name}" must not be done now`);
      }
    },
    forget: (id) => tell({ forget: id }),
    bye: async () => {
      if (isThere()) child.stdin.end(`${BYE}\n`);
      await gone(2_000);
    },
    takeOver: async () => {
      if (isThere()) child.stdin.end();
      await gone(10_000);
    },
  };
};
