/** A command of Floodgate as a user runs it: a process, what it prints, its exit code. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { NODE_ARGUMENTS } from "../supervision/child.ts";
import { type ProcessId, startTimeOf } from "../supervision/processes.ts";

export const ENTRY = fileURLToPath(new URL("./floodgate.mjs", import.meta.url));

export type RunningCommand = {
  child: ChildProcess;
  /** Both outputs so far, in the order in which they came. */
  said(): string;
  /** The exit code, also while what it started still holds its pipes. */
  exited: Promise<number | null>;
  /** When there is nothing more to come. */
  ended: Promise<{ code: number | null; out: string; err: string; said: string }>;
};

type Where = { env?: Record<string, string>; cwd?: string; entry?: string };

export const startCommand = (args: readonly string[], { env = {}, cwd, entry = ENTRY }: Where = {}): RunningCommand => {
  const child = spawn(process.execPath, ["--disable-warning=ExperimentalWarning", entry, ...args], {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
    ...(cwd === undefined ? {} : { cwd }),
  });
  let [out, err, said] = ["", "", ""];
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    out += text;
    said += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    err += text;
    said += text;
  });
  const ended = new Promise<Awaited<RunningCommand["ended"]>>((resolve) =>
    child.once("close", (code) => resolve({ code, out, err, said })),
  );
  const exited = new Promise<number | null>((resolve) => child.once("exit", resolve));
  return { child, said: () => said, exited, ended };
};

export const runCommand = (args: readonly string[], where: Where = {}): RunningCommand["ended"] =>
  startCommand(args, where).ended;

/** The processes of this machine that name a folder in their command line; Linux only. */
export const processesAbout = (folder: string): ProcessId[] =>
  readdirSync("/proc").flatMap((name) => {
    try {
      if (!/^\d+$/.test(name) || !readFileSync(`/proc/${name}/cmdline`, "utf8").includes(folder)) return [];
    } catch {
      return [];
    }
    const start = startTimeOf(Number(name));
    return start === null ? [] : [{ pid: Number(name), start }];
  });

const IN_TURN = fileURLToPath(new URL("./commands-in-turn.fixture.ts", import.meta.url));

/** Plays commands one after the other in one process, which loads the program once: for tests of what commands say. */
export const startCommandsInTurn = () => {
  const child = spawn(process.execPath, [...NODE_ARGUMENTS, IN_TURN], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const answers = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const exited = once(child, "exit");
  return {
    run: async (args: readonly string[], { env = {}, cwd = process.cwd() }: Omit<Where, "entry"> = {}) => {
      child.stdin.write(`${JSON.stringify({ args, env, cwd })}\n`);
      return JSON.parse((await answers.next()).value as string) as { code: number; out: string; err: string };
    },
    /** The exit code and signal, when nothing keeps the process alive any more. */
    end: () => {
      child.stdin.end();
      return exited;
    },
    kill: () => child.kill("SIGKILL"),
  };
};
