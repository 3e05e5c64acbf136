/**
 * Servers and clients of a benchmark are processes of their own, so that neither takes time from the other unseen. The
 * parent's side: start one, ask it, end it. A child ends by itself when its parent is gone.
 */
import { type ChildProcess, fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { FromChild, ToChild } from "./child-side.ts";

type Usage = {
  /** CPU time since the process began, in microseconds. */
  cpuUs: number;
  rssBytes: number;
};

export type Child = {
  readonly pid: number;
  /** What the child said of itself when it was ready: its address, for instance. */
  readonly made: unknown;
  /** Rejects with the child's own sentence, or when it ended. */
  ask(question: unknown): Promise<unknown>;
  usage(): Promise<Usage>;
  end(): Promise<void>;
};

const END_MS = 5_000;

const living = new Set<Child>();

/** CPU time of this process and of all its living children, in microseconds. */
export const cpuUsOfAll = async (): Promise<number> => {
  const { user, system } = process.cpuUsage();
  const children = await Promise.all([...living].map((child) => child.usage()));
  return children.reduce((sum, { cpuUs }) => sum + cpuUs, user + system);
};

/** `file` stands in this folder; `options` reach it over the pipe, because secrets do not belong in argv. */
export const startChild = async (
  file: string,
  options: unknown,
  settings: { nodeArguments?: string[]; env?: Record<string, string> } = {},
): Promise<Child> => {
  const forked: ChildProcess = fork(fileURLToPath(new URL(file, import.meta.url)), [], {
    execArgv: ["--disable-warning=ExperimentalWarning", ...(settings.nodeArguments ?? [])],
    stdio: ["ignore", "ignore", "inherit", "ipc"],
    env: { ...process.env, ...settings.env },
  });
  let asked = 0;
  let exited = false;
  const waiting = new Map<number, { resolve(answer: unknown): void; reject(error: Error): void }>();
  forked.on("message", (message: FromChild) => {
    const question = waiting.get(message.n);
    waiting.delete(message.n);
    if ("error" in message) question?.reject(new Error(`${file}: ${message.error}`));
    else question?.resolve(message.answer);
  });
  forked.on("exit", (code, signal) => {
    exited = true;
    for (const { reject } of waiting.values()) reject(new Error(`${file} ended unasked (${signal ?? code})`));
    waiting.clear();
  });
  const send = (kind: ToChild["kind"], body?: unknown): Promise<unknown> =>
    new Promise((resolve, reject) => {
      if (exited) return reject(new Error(`${file} has ended`));
      asked += 1;
      waiting.set(asked, { resolve, reject });
      forked.send({ n: asked, kind, body } satisfies ToChild);
    });
  const end = async (): Promise<void> => {
    if (exited) return;
    const gone = new Promise<void>((resolve) => forked.once("exit", () => resolve()));
    const force = setTimeout(() => forked.kill("SIGKILL"), END_MS);
    forked.disconnect();
    await gone;
    clearTimeout(force);
  };
  try {
    const made = await send("start", options);
    const child: Child = {
      pid: forked.pid as number,
      made,
      ask: (question) => send("ask", question),
      usage: async () => (await send("usage")) as Usage,
      end: () => {
        living.delete(child);
        return end();
      },
    };
    living.add(child);
    return child;
  } catch (error) {
    if (!exited) await end();
    throw error;
  }
};
