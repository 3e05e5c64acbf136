/**
 * A process that outlives the runner by a few seconds. Before each side effect, the run sends it through a pipe how to
 * undo the effect. When the pipe closes without a "bye" (kill -9, a crash, a lost terminal), the process undoes what is
 * open and ends every process with the run's mark. `startWatchdog` is the runner's end, `guardRunner` the body
 * (faults/watchdog-process.ts).
 */
import type { ChildProcess } from "node:child_process";
import { rmSync } from "node:fs";
import { resolve } from "node:path";
import type { Readable } from "node:stream";
import { NODE_ARGUMENTS, signalInWords, spawnChild } from "./child.ts";
import { type Effect, type Notes, notesIn, type UndoPorts, undoAll } from "./journal.ts";
import { cutLines } from "./lines.ts";
import { killMarked, markedProcesses, RUN_MARK, signalGroup, signalProcess } from "./processes.ts";
import { STOP_SIGNALS } from "./stop-signals.ts";
import { inTime } from "./waiting.ts";

/** A line from the runner: the environment for heal commands, a side effect that begins, the id of one that is over. */
type Message = { env: NodeJS.ProcessEnv } | { keep: Effect } | { forget: string };

const BYE = "bye";

const READY_MS = 15_000;
const BYE_MS = 2_000;
const TAKE_OVER_MS = 10_000;

/**
 * The only variables that the watchdog's process gets: a CI runner's clean-up ends every process whose environment has
 * the job's number, and the watchdog has to outlive the job while it heals.
 */
const NEEDS = [
  ...["PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "NODE_COMPILE_CACHE"],
  ...["NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR", "FLOODGATE_CONTROL_TOKEN"],
];
/** Variables by which a clean-up finds its job's processes (GitHub, Azure, Jenkins). Heal commands get all others. */
const OF_JOB = [
  ...["RUNNER_TRACKING_ID", "VSTS_PROCESS_LOOKUP_ID"],
  ...["JENKINS_NODE_COOKIE", "JENKINS_SERVER_COOKIE", "HUDSON_COOKIE", "HUDSON_SERVER_COOKIE"],
];

const environment = (isWanted: (name: string) => boolean): NodeJS.ProcessEnv =>
  Object.fromEntries(Object.entries(process.env).filter(([name]) => isWanted(name)));

const whyNotReady = async (child: ChildProcess & { stdout: Readable }): Promise<string | null> => {
  const { promise, resolve } = Promise.withResolvers<string | null>();
  child.stdout.once("data", () => resolve(null));
  child.once("exit", (code, signal) => resolve(`it ended with ${signal === null ? code : signalInWords(signal)}`));
  child.once("error", ({ message }) => resolve(message));
  const why = await inTime(promise, READY_MS);
  return why === "late" ? `no sign of life within ${READY_MS} ms` : why;
};

/** `entry`: the file that calls `guardRunner`. Throws if the watchdog does not start; then nothing else may start. */
export const startWatchdog = async (entry: string, journalPath: string, mark: string) => {
  const child = spawnChild(process.execPath, [...NODE_ARGUMENTS, entry, resolve(journalPath), mark], {
    detached: true,
    stdio: ["pipe", "pipe", "ignore"],
    env: environment((name) => NEEDS.includes(name)),
    // A job's folder may be removed while the watchdog runs.
    cwd: "/",
  });
  for (const end of [child, child.stdin, child.stdout]) end.on("error", () => {});
  const why = await whyNotReady(child);
  if (why !== null) {
    child.kill("SIGKILL");
    throw new Error(`the watchdog did not start: ${why}; the run ended before it started anything else`);
  }
  const tell = (message: Message, read?: () => void) => void child.stdin.write(`${JSON.stringify(message)}\n`, read);
  const env = environment((name) => name !== RUN_MARK && !OF_JOB.includes(name));
  await new Promise<void>((read) => tell({ env }, read));
  const exited = new Promise<void>((resolve) => child.once("exit", () => resolve()));
  // The watchdog must not keep a runner alive that has nothing else to do.
  child.unref();
  for (const pipe of [child.stdin, child.stdout]) (pipe as unknown as { unref: () => void }).unref();

  const isThere = (): boolean => child.exitCode === null && child.signalCode === null;
  /** Ends the pipe, after a last word if there is one, and the process if it does not end within `ms`. */
  const end = async (word: string, ms: number): Promise<void> => {
    if (!isThere()) return;
    child.stdin.end(word);
    child.ref();
    await inTime(exited, ms);
    if (isThere()) child.kill("SIGKILL");
  };
  return {
    pid: child.pid as number,
    isThere,
    keep: (effect: Effect): void => {
      // If the runner were killed now, nothing would undo the effect.
      if ((effect.kind === "fault" || effect.kind === "signal") && !isThere())
        throw new Error(`the watchdog has ended: "${effect.name}" must not be done without one`);
      tell({ keep: effect });
      // A line that stays buffered means that the watchdog has stopped reading; it would be lost with this process.
      if (isThere() && child.stdin.writableLength > 0) {
        throw new Error(`the watchdog does not read: "${effect.name}" must not be done now`);
      }
    },
    forget: (id: string): void => tell({ forget: id }),
    bye: (): Promise<void> => end(`${BYE}\n`, BYE_MS),
    /** Makes the watchdog undo what is open, as if the runner had died. Resolves when the watchdog has ended. */
    takeOver: (): Promise<void> => end("", TAKE_OVER_MS),
  };
};

/** Deadline of the whole rescue. Undoing gets a little over half of it; at the end the run's processes are killed. */
const RESCUE_MS = 8_000;
const HEAL_MS = 4_500;
const HOW = { callMs: 700, graceMs: 1_000, againMs: 250 };

const FOR_PEOPLE: ReadonlySet<Effect["kind"]> = new Set(["key", "session", "fixture"]);

/** The watchdog's process, which ends at the runner's "bye". If the pipe closes instead, it undoes first. */
export const guardRunner = (journalPath: string, mark: string, ports: UndoPorts): void => {
  let env = process.env;
  const effects = new Map<string, Effect>();
  let begun = false;

  const rescue = async (): Promise<void> => {
    // A key, session or fixture without an undo stays open, for people to see. Others without one end by themselves.
    const isOver = ({ kind, undo }: Effect): boolean => undo.how !== "nothing" || !FOR_PEOPLE.has(kind);
    const open = [...effects.values()].toReversed().filter(isOver);
    let notes: Notes | null = null;
    try {
      if (open.length > 0) notes = notesIn(journalPath, "watchdog");
    } catch {} // the folder is gone: effects are undone without notes
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
      } catch {} // go on with the others
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

  // A signal that ends the runner (a closed terminal, a stopped job) must not end the watchdog too.
  for (const signal of STOP_SIGNALS) process.on(signal, () => {});
  process.stdin.on("data", cutLines(hear).push);
  for (const event of ["end", "close", "error"] as const) process.stdin.on(event, begin);
  process.stdout.on("error", () => {});
  process.stdout.write("ready\n");
};
