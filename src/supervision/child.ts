/**
 * One child process: in a process group of its own, its output captured line by line and masked, known by number and
 * start time. Nothing here decides when it ends; supervision.ts does.
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { accessSync, constants } from "node:fs";
import { delimiter, join, resolve } from "node:path";
import type { Writable } from "node:stream";
import { isMainThread } from "node:worker_threads";
import { type CapturedOutput, captureOutput, type Exit, type OutputSpec } from "./child-output.ts";
import { birthOf, type GroupId, signalGroup } from "./processes.ts";
import type { Redactor } from "./redaction.ts";
import { pause } from "./waiting.ts";

export type ChildSpec = OutputSpec & {
  command: string;
  args?: readonly string[];
  /** On top of this process's environment. Values of names that sound secret are masked from then on. */
  env?: Record<string, string>;
  cwd?: string;
  /** `at-stdin-eof`: one of ours, which ends when the runner does. `by-signal`: everybody else. */
  ends: "at-stdin-eof" | "by-signal";
  /** Ended after all others, because they need it (toxiproxy). */
  endLast?: boolean;
  /** Between SIGTERM and SIGKILL, in milliseconds. */
  graceMs?: number;
  /** Whether the kernel is asked to kill it when the runner dies, where it can (default true). */
  deathSignal?: boolean;
};

const SOUNDS_SECRET = /(?:SECRET|TOKEN|PASSWORD|_KEY)$/i;

let setprivWorks: boolean | undefined;
/** Busybox has a setpriv without this option, so it is tried once. */
const hasSetpriv = (): boolean => {
  setprivWorks ??=
    process.platform === "linux" &&
    spawnSync("setpriv", ["--pdeathsig", "KILL", "--", "true"], { stdio: "ignore", timeout: 5_000 }).status === 0;
  return setprivWorks;
};

const isProgram = (command: string, cwd: string = "."): boolean => {
  const places = command.includes("/")
    ? [resolve(cwd, command)]
    : (process.env.PATH ?? "").split(delimiter).map((folder) => join(folder, command));
  return places.some((path) => {
    try {
      accessSync(path, constants.X_OK);
      return true;
    } catch {
      return false;
    }
  });
};

export type Started = {
  group: GroupId;
  stdin: Writable | null;
  exited: Promise<Exit>;
  hasExited: () => boolean;
} & CapturedOutput;

/** Spawns it; `onSpawned` is called in the same turn, before anything else can go wrong. Throws a sentence. */
export const startChild = async (
  spec: ChildSpec,
  redactor: Redactor,
  marked: Record<string, string>,
  onSpawned: (group: GroupId) => void,
): Promise<Started> => {
  const { name, command, args = [], env = {} } = spec;
  for (const [variable, value] of Object.entries(env)) if (SOUNDS_SECRET.test(variable)) redactor.register(value);
  // Looked up here, because behind setpriv a missing program would only be an exit code.
  if (!isProgram(command, spec.cwd)) throw new Error(`could not start ${name} (${command}): there is no such program`);
  // The kernel's signal comes when the thread that started the child ends, so only the main one may ask for it.
  const guarded = spec.ends === "by-signal" && spec.deathSignal !== false && isMainThread && hasSetpriv();
  const [file, fileArgs] = guarded ? ["setpriv", ["--pdeathsig", "KILL", "--", command, ...args]] : [command, args];
  const child: ChildProcess = spawn(file, fileArgs, {
    detached: true,
    stdio: [spec.ends === "at-stdin-eof" ? "pipe" : "ignore", "pipe", "pipe"],
    env: { ...process.env, ...env, ...marked },
    ...(spec.cwd === undefined ? {} : { cwd: spec.cwd }),
  });
  const { pid } = child;
  if (pid === undefined) {
    const error = await new Promise<NodeJS.ErrnoException>((resolve) => child.once("error", resolve));
    throw new Error(redactor.redact(`could not start ${name} (${command}): ${error.message}`));
  }
  const group: GroupId = { pid, pgid: pid, start: birthOf(pid) };
  child.on("error", () => {});
  child.stdin?.on("error", () => {});
  try {
    onSpawned(group);
  } catch (error) {
    // What cannot be written down must not run.
    signalGroup(group, "SIGKILL");
    throw error;
  }

  let over = false;
  const closed = new Promise<void>((resolve) => child.once("close", () => resolve()));
  const exited = new Promise<Exit>((resolve) => {
    child.once("exit", (code, signal) => {
      over = true;
      // Its last lines come with "close", which does not come while a child of its own holds the pipe.
      const inTime = new AbortController();
      void Promise.race([closed, pause(500, inTime.signal)]).then(() => {
        inTime.abort();
        resolve({ code, signal });
      });
    });
  });
  const output = captureOutput(child, spec, redactor, exited);
  return { ...output, group, stdin: child.stdin, exited, hasExited: () => over };
};
