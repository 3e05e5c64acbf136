/**
 * Servers and clients of a benchmark run in processes of their own, so that their CPU time is told apart. This is the
 * parent's side: it starts a child under the supervisor, asks it, and ends it.
 */
import { fileURLToPath } from "node:url";
import type { Supervisor } from "../../supervision/supervisor.ts";
import type { FromChild, ToChild, Usage } from "./child-side.ts";

export type BenchChild = AsyncDisposable & {
  /** What the child said of itself when it was ready: its address, for instance. */
  readonly made: unknown;
  /** Rejects with the child's own sentence, or when it ended. */
  ask(question: unknown): Promise<unknown>;
  usage(): Promise<Usage>;
  end(): Promise<void>;
};

const ANSWER_MS = 120_000;

/** `file` stands in this folder; `options` reach it over its stdin, because secrets do not belong in argv. */
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
