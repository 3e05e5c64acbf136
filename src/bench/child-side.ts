/** The child's side of `child-process.ts`: starts what it is asked to, answers, ends with its parent. */
export type ToChild = { n: number; kind: "start" | "ask" | "usage"; body?: unknown };
export type FromChild = { n: number; answer: unknown } | { n: number; error: string };

export type Started = {
  /** Given to the parent when it is ready. */
  made: unknown;
  answer?(question: never): unknown;
  close?(): Promise<void>;
};

export const serveParent = <Options>(start: (options: Options) => Started | Promise<Started>): void => {
  let started: Started | undefined;
  const handle = async ({ kind, body }: ToChild): Promise<unknown> => {
    if (kind === "usage") {
      const { user, system } = process.cpuUsage();
      return { cpuUs: user + system, rssBytes: process.memoryUsage.rss() };
    }
    if (kind === "start") {
      started = await start(body as Options);
      return started.made;
    }
    if (started?.answer === undefined) throw new Error("it answers no questions");
    return started.answer(body as never);
  };
  process.on("message", async (message: ToChild) => {
    try {
      process.send?.({ n: message.n, answer: await handle(message) } satisfies FromChild);
    } catch (error) {
      process.send?.({ n: message.n, error: error instanceof Error ? error.message : String(error) });
    }
  });
  process.once("disconnect", async () => {
    await started?.close?.();
    process.exit(0);
  });
  // The parent ends us; a Ctrl-C meant for it must not cut its measurement's clean-up short.
  process.on("SIGINT", () => {});
};
