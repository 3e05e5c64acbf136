/** The child's side of `child-process.ts`: starts what it is asked to, answers a line for a line, ends with its parent. */
import { readLines } from "../../supervision/lines.ts";

export type ToChild = { n: number; kind: "start" | "ask" | "usage"; body?: unknown };
export type FromChild = { n: number; answer?: unknown } | { n: number; error: string };

export type Usage = {
  /** CPU time since the process began, in microseconds. */
  cpuUs: number;
  rssBytes: number;
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
  readLines(
    process.stdin,
    (line) => void hear(line),
    () => void end(),
  );
};
