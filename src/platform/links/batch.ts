/**
 * Questions asked in one turn of the event loop travel as one request. Each keeps its own answer and its own deadline,
 * counted from the end of that turn; nothing is asked twice.
 */

/** A timer this late means a stall of ours, not of the usual jitter. */
const STALL_MS = 20;

/**
 * Calls `onExpired` after `budgetMs`, unless the returned function is called first. A stall of this process is not held
 * against the dependency: the answer may lie unread in the socket, so it looks again after one turn of the event loop; a
 * timer that fired much too late gives that time back, once.
 */
export const startDeadline = (budgetMs: number, onExpired: () => void): (() => void) => {
  const dueMs = performance.now() + budgetMs;
  let cancelled = false;
  let extended = false;
  let timer: NodeJS.Timeout;
  const lookAgain = (): void => {
    if (cancelled) return;
    const lateMs = performance.now() - dueMs;
    if (!extended && lateMs > STALL_MS) {
      extended = true;
      timer = setTimeout(() => setImmediate(lookAgain), Math.min(lateMs, budgetMs));
      return;
    }
    cancelled = true;
    onExpired();
  };
  timer = setTimeout(() => setImmediate(lookAgain), budgetMs);
  return () => {
    cancelled = true;
    clearTimeout(timer);
  };
};

type BatchSettings<Item, Answer> = {
  /**
   * Resolves to what came for each item, in order; an error where that is nonsense. `signal`: nobody waits any more.
   */
  send(items: readonly Item[], signal: AbortSignal): Promise<readonly (Answer | Error)[]>;
  unavailable(reason: string, cause?: unknown): Error;
  maxItems: number;
  /** Batches under way at once; what is asked beyond waits, its deadline running. */
  maxInFlight: number;
};

type Batcher<Item, Answer> = {
  ask(item: Item, budgetMs: number): Promise<Answer>;
  close(): void;
};

/** Reads an answer for each item; an error where that is nonsense. Throws where there are not as many. */
export const readEach = <Item, Answer>(
  items: readonly Item[],
  answers: unknown,
  read: (item: Item, answer: unknown) => Answer,
): (Answer | Error)[] => {
  if (!Array.isArray(answers) || answers.length !== items.length) {
    throw new Error(
      `expected a list of ${items.length} answers, got ${Array.isArray(answers) ? answers.length : "none"}`,
    );
  }
  return items.map((item, at) => {
    try {
      return read(item, answers[at]);
    } catch (error) {
      return error as Error;
    }
  });
};

/** One batch is decided while the next is on its way; with fewer, each side would wait for the other. */
const ENOUGH_IN_FLIGHT = 2;
/** So long questions gather for a fuller batch while enough are under way: an answer is near then. */
const LINGER_MS = 2;

/** What waits for one request; once nobody does, the request ends. */
type Batch = { waiting: number; end(): void };

type Question<Item, Answer> = {
  item: Item;
  budgetMs: number;
  resolve(answer: Answer): void;
  reject(error: Error): void;
  settled: boolean;
  cancelDeadline(): void;
  batch: Batch | null;
};

const nothing = (): void => {};

export const createBatcher = <Item, Answer>(settings: BatchSettings<Item, Answer>): Batcher<Item, Answer> => {
  type Asked = Question<Item, Answer>;
  let asked: Asked[] = [];
  let queue: Asked[] = [];
  const running = new Set<AbortController>();
  let sentMs = 0;
  let lingering: NodeJS.Timeout | undefined;
  let closed = false;

  const settle = (question: Asked): void => {
    question.settled = true;
    question.cancelDeadline();
    const { batch } = question;
    if (batch === null) return;
    batch.waiting -= 1;
    if (batch.waiting === 0) batch.end();
  };

  const fail = (question: Asked, reason: string, cause?: unknown): void => {
    if (question.settled) return;
    settle(question);
    question.reject(settings.unavailable(reason, cause));
  };

  const answer = (question: Asked, said: Answer | Error): void => {
    if (said instanceof Error) fail(question, "it answered nonsense", said);
    if (question.settled) return;
    settle(question);
    question.resolve(said as Answer);
  };

  const dispatch = async (questions: Asked[]): Promise<void> => {
    const abort = new AbortController();
    // Ends the connection too: one that let a deadline pass may be dead. One that has answered is not aborted.
    const batch = { waiting: questions.length, end: () => abort.abort() };
    for (const question of questions) question.batch = batch;
    running.add(abort);
    try {
      const answers = await settings.send(
        questions.map(({ item }) => item),
        abort.signal,
      );
      batch.end = nothing;
      questions.forEach((question, at) => void answer(question, answers[at] as Answer | Error));
    } catch (error) {
      batch.end = nothing;
      for (const question of questions) fail(question, "it could not be asked", error);
    } finally {
      running.delete(abort);
      flush();
    }
  };

  const flush = (): void => {
    clearTimeout(lingering);
    queue = queue.filter(({ settled }) => !settled);
    while (queue.length > 0 && running.size < settings.maxInFlight) {
      const answerIsNear = running.size >= ENOUGH_IN_FLIGHT && performance.now() - sentMs < LINGER_MS;
      if (answerIsNear && queue.length < settings.maxItems) {
        lingering = setTimeout(flush, LINGER_MS);
        return;
      }
      sentMs = performance.now();
      void dispatch(queue.splice(0, settings.maxItems));
    }
  };

  /** Neighbours with one budget have one deadline, because a timer for each would cost more than the question. */
  const startDeadlines = (questions: readonly Asked[]): void => {
    for (let from = 0, to = 0; from < questions.length; from = to) {
      const { budgetMs } = questions[from] as Asked;
      while (questions[to]?.budgetMs === budgetMs) to += 1;
      const alike = questions.slice(from, to);
      let waiting = alike.length;
      const end = startDeadline(budgetMs, () => {
        for (const question of alike) fail(question, `no answer within ${budgetMs} ms`);
      });
      const cancelDeadline = (): void => {
        waiting -= 1;
        if (waiting === 0) end();
      };
      for (const question of alike) question.cancelDeadline = cancelDeadline;
    }
  };

  const endTurn = (): void => {
    const questions = asked.filter(({ settled }) => !settled);
    asked = [];
    startDeadlines(questions);
    queue.push(...questions);
    flush();
  };

  return {
    ask: (item, budgetMs) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(settings.unavailable("its client is closed"));
        if (asked.length === 0) setImmediate(endTurn);
        asked.push({ item, budgetMs, resolve, reject, settled: false, cancelDeadline: nothing, batch: null });
      }),
    close: () => {
      closed = true;
      for (const question of [...asked, ...queue]) fail(question, "its client was closed");
      for (const abort of running) abort.abort();
    },
  };
};
