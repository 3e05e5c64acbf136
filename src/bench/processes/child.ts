/**
 * Servers of a benchmark run in their own processes, so that their CPU time is separate from the client's. A child gets a line
 * on stdin and answers with a line; it ends with its parent.
 */
import { fileURLToPath } from "node:url";
import { readLines } from "../../supervision/lines.ts";
import type { Supervisor } from "../../supervision/supervisor.ts";

type ToChild = { n: number; kind: "start" | "ask" | "usage"; body?: unknown };
type FromChild = { n: number; answer?: unknown } | { n: number; error: string };

/** `cpuUs`: CPU time since the process began, in microseconds. */
type Usage = { cpuUs: number; rssBytes: number };

export type BenchChild = AsyncDisposable & {
  /** What the child reported when it was ready, for example its address. */
  readonly made: unknown;
  /** Rejects with the child's own message, or if it has ended. */
  ask(question: unknown): Promise<unknown>;
  usage(): Promise<Usage>;
  end(): Promise<void>;
};

const ANSWER_MS = 120_000;

/** Runs a file of this folder. `options` go over stdin, because secrets do not belong in argv. */
export const startBenchChild = async (
  supervisor: Supervisor,
  file: string,
  options: unknown,
  nodeArguments: readonly string[] = [],
): Promise<BenchChild> => {
  const child = await supervisor.start({
    name: file,
    command: process.execPath,
    args: ["--disable-warning=ExperimentalWarning", ...nodeArguments, fileURLToPath(new URL(file, import.meta.url))],
    ends: "at-stdin-eof",
  });
  let asked = 0;
  const send = async (kind: ToChild["kind"], body?: unknown): Promise<unknown> => {
    asked += 1;
    const n = asked;
    child.stdin?.write(`${JSON.stringify({ n, kind, body } satisfies ToChild)}\n`);
    const line = await child.waitForLine(new RegExp(`^\\{"n":${n}[,}]`), { deadlineMs: ANSWER_MS });
    const came = JSON.parse(line) as FromChild;
    if ("error" in came) throw new Error(`${file}: ${came.error}`);
    return came.answer;
  };
  const end = async (): Promise<void> => void (await child.stop());
  try {
    const made = await send("start", options);
    const ask: BenchChild["ask"] = (question) => send("ask", question);
    return { made, ask, usage: async () => (await send("usage")) as Usage, end, [Symbol.asyncDispose]: end };
  } catch (error) {
    await end();
    throw error;
  }
};

export type Started = {
  made: unknown;
  answer?(question: never): unknown;
  close?(): Promise<void>;
};

export const serveParent = <Options>(start: (options: Options) => Started | Promise<Started>): void => {
  let started: Started | undefined;
  const handle = async ({ kind, body }: ToChild): Promise<unknown> => {
    if (kind === "usage") {
      const { user, system } = process.cpuUsage();
      return { cpuUs: user + system, rssBytes: process.memoryUsage.rss() } satisfies Usage;
    }
    if (kind === "start") {
      started = await start(body as Options);
      return started.made;
    }
    if (started?.answer === undefined) throw new Error("it answers no questions");
    return started.answer(body as never);
  };
  const say = (message: FromChild): void => void process.stdout.write(`${JSON.stringify(message)}\n`);
  const hear = async (line: string): Promise<void> => {
    const message = JSON.parse(line) as ToChild;
    try {
      say({ n: message.n, answer: await handle(message) });
    } catch (error) {
      say({ n: message.n, error: error instanceof Error ? error.message : String(error) });
    }
  };
  const end = async (): Promise<void> => {
    await started?.close?.();
    process.exit(0);
  };
  process.once("SIGTERM", end);
  readLines(process.stdin, hear, end);
};
