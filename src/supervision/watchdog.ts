/**
 * A process that outlives the runner by a few seconds. The run hands it, through a pipe, what undoes each side effect before
 * it is done. When the pipe closes without a "bye" (kill -9, a crash, a lost terminal), it undoes what is open and ends
 * whatever has the run's mark. `startWatchdog` is the runner's end; `guardRunner` is the body of the process
 * (faults/watchdog-process.ts).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { rmSync } from "node:fs";
import { resolve } from "node:path";
import type { Readable } from "node:stream";
import { notesIn } from "./journal.ts";
import { cutLines } from "./lines.ts";
import { killMarked, markedProcesses, RUN_MARK, signalGroup, signalProcess } from "./processes.ts";
import { STOP_SIGNALS } from "./stop-signals.ts";
import { type Effect, type Notes, type UndoPorts, undoAll } from "./undo.ts";
import { inTime, pause } from "./waiting.ts";

/** A line from the runner: the environment for heal commands, a side effect that begins or that is over. */
type Message = { env: NodeJS.ProcessEnv } | { keep: Effect } | { forget: string };

const BYE = "bye";

const READY_MS = 15_000;
const BYE_MS = 2_000;
const TAKE_OVER_MS = 10_000;

/**
 * The rest of a CI job's environment stays behind: a CI runner's clean-up ends every process that carries the job's number,
 * and the watchdog has to outlive the job while it heals.
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

const environment = (isWanted: (name: string) => boolean): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => isWanted(name)));

export type Watchdog = Awaited<ReturnType<typeof startWatchdog>>;

const whyNotReady = (child: ChildProcess & { stdout: Readable }): Promise<string | null> => {
  const over = new AbortController();
  const { signal } = over;
  return Promise.race([
    once(child.stdout, "data", { signal }).then(() => null),
    once(child, "exit", { signal }).then(([code]) => `it ended with ${code}`),
    pause(READY_MS, signal).then(() => `no sign of life within ${READY_MS} ms`),
  ])
    .catch((error: Error) => error.message)
    .finally(() => over.abort());
};

/** `entry`: the file that calls `guardRunner`. Throws a sentence when it does not start: without it nothing may be started. */
export const startWatchdog = async (entry: string, journalPath: string, mark: string) => {
  const child = spawn(process.execPath, [entry, resolve(journalPath), mark], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
    env: environment((name) => NEEDS.includes(name)),
    // The folder of a job may be removed under it.
    cwd: "/",
  });
  for (const end of [child, child.stdin, child.stdout]) end.on("error", () => {});
  const why = await whyNotReady(child);
  if (why !== null) {
    child.kill("SIGKILL");
    throw new Error(`the watchdog did not start: ${why}; the run ended before it started anything else`);
  }
  const tell = (message: Message, read?: () => void): void =>
    void child.stdin.write(`${JSON.stringify(message)}\n`, read);
  const env = environment((name) => name !== RUN_MARK && !OF_JOB.includes(name));
  await new Promise<void>((read) => tell({ env }, read));
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  // It must not keep a runner alive that has nothing else to do.
  child.unref();
  for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref: () => void }).unref();

  const isThere = (): boolean => child.exitCode === null && child.signalCode === null;
  const endsWithin = async (ms: number): Promise<void> => {
    if (!isThere()) return;
    child.ref();
    await inTime(exited, ms);
    if (isThere()) child.kill("SIGKILL");
  };
  return {
    pid: child.pid as number,
    isThere,
    keep: (effect: Effect): void => {
      // A runner that is killed now would leave it broken.
      if ((effect.kind === "fault" || effect.kind === "signal") && !isThere())
        throw new Error(`the watchdog has ended: "${effect.name}" must not be done without one`);
      tell({ keep: effect });
      // A pipe takes a line at once, or its other end has stopped reading; then the line would die with this process.
      if (isThere() && child.stdin.writableLength > 0) {
        throw new Error(`the watchdog does not read: "${effect.name}" must not be done now`);
      }
    },
    forget: (id: string): void => tell({ forget: id }),
    bye: async (): Promise<void> => {
      if (isThere()) child.stdin.end(`${BYE}\n`);
      await endsWithin(BYE_MS);
    },
    /** Something was left behind: it takes it back as if the runner had died. Resolves when it has ended. */
    takeOver: async (): Promise<void> => {
      if (isThere()) child.stdin.end();
      await endsWithin(TAKE_OVER_MS);
    },
  };
};

/** The whole rescue. Faults get a little over half of it; what hangs then is cut off, and processes are ended hard. */
const RESCUE_MS = 8_000;
const HEAL_MS = 4_500;
const HOW = { callMs: 700, graceMs: 1_000, againMs: 250 };

const FOR_PEOPLE: ReadonlySet<Effect["kind"]> = new Set(["key", "session", "fixture"]);

/** Called once, by a process that exists for this alone: it lives until the runner says "bye" or its pipe closes. */
export const guardRunner = (journalPath: string, mark: string, ports: UndoPorts): void => {
  let env = process.env;
  const effects = new Map<string, Effect>();
  let begun = false;

  const rescue = async (): Promise<void> => {
    // What nobody can take back stays open, for people to see. A fault or a stop of a part of the run's own ends with the part.
    const isOver = ({ kind, undo }: Effect): boolean => undo.how !== "nothing" || !FOR_PEOPLE.has(kind);
    const open = [...effects.values()].toReversed().filter(isOver);
    let notes: Notes | null = null;
    try {
      if (open.length > 0) notes = notesIn(journalPath, "watchdog");
    } catch {} // the folder is gone: what was done to others is taken back all the same
    await undoAll(open, notes, { ports, env, signal: AbortSignal.timeout(HEAL_MS), ...HOW });
    notes?.close();
    await killMarked(mark);
  };
  const cutOff = (): void => {
    for (const { undo } of effects.values()) {
      try {
        if (undo.how === "end-process") signalGroup(undo, "SIGKILL");
        if (undo.how === "remove-folder" || undo.how === "remove-lock") {
          rmSync(undo.path, { recursive: true, force: true });
        }
      } catch {} // the others have their turn
    }
    for (const stray of markedProcesses(mark)) signalProcess(stray, "SIGKILL");
    process.exit(1);
  };
  const begin = (): void => {
    if (begun) return;
    begun = true;
    setTimeout(cutOff, RESCUE_MS);
    rescue().then(() => process.exit(0), cutOff);
  };
  const hear = (line: string): void => {
    if (line === BYE) process.exit(0);
    const message = JSON.parse(line) as Message;
    if ("env" in message) env = message.env;
    else if ("keep" in message) effects.set(message.keep.id, message.keep);
    else effects.delete(message.forget);
  };

  // What ends the runner (a closed terminal, a stopped job) must not end this one first.
  for (const signal of STOP_SIGNALS) process.on(signal, () => {});
  process.stdin.on("data", cutLines(hear).push);
  for (const event of ["end", "close", "error"] as const) process.stdin.on(event, begin);
  process.stdout.on("error", () => {});
  process.stdout.write("ready\n");
};
