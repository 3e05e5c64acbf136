/**
 * Questions asked in one turn of the event loop travel as one request (design.md, "Real links"). Each keeps its own answer
 * and its own deadline, counted from when it was asked; nothing is ever asked twice.
 */
import { startDeadline } from "./deadline.ts";

type BatchSettings<Item, Answer> = {
  /** Sends one batch; resolves to what came for each item, in order. `signal`: nobody waits any more. */
  send(items: readonly Item[], signal: AbortSignal): Promise<readonly unknown[]>;
  /** Reads one answer; throws when it is nonsense. */
  read(item: Item, answer: unknown): Answer;
  /** The named error that the caller gets when no valid answer came. */
  unavailable(reason: string, cause?: unknown): Error;
  maxItems: number;
  /** Batches under way at once; what is asked beyond waits, its deadline running. */
  maxInFlight: number;
};

type Batcher<Item, Answer> = {
  /** Rejects with the settings' `unavailable` error. */
  ask(item: Item, budgetMs: number): Promise<Answer>;
  /** Rejects what waits and refuses what comes. */
  close(): void;
};

/** One is decided while the next is on its way; with fewer, each side would wait for the other. */
const ENOUGH_IN_FLIGHT = 2;
/**
 * While so many are under way, an answer is near, and until then more questions gather for the next batch: under load that
 * makes few large batches of many small ones. On a slow link nothing waits longer than this.
 */
const LINGER_MS = 2;

type Batch = { waiting: number; abort: AbortController };

type Question<Item, Answer> = {
  item: Item;
  resolve(answer: Answer): void;
  reject(error: Error): void;
  cancelDeadline(): void;
  settled: boolean;
  batch: Batch | null;
};

export const createBatcher = <Item, Answer>(settings: BatchSettings<Item, Answer>): Batcher<Item, Answer> => {
  let queue: Question<Item, Answer>[] = [];
  const running = new Set<Batch>();
  let sentMs = 0;
  let scheduled = false;
  let lingering: NodeJS.Timeout | undefined;
  let closed = false;

  const settle = (question: Question<Item, Answer>, finish: () => void): void => {
    if (question.settled) return;
    question.settled = true;
    question.cancelDeadline();
    if (question.batch !== null) {
      question.batch.waiting -= 1;
      // Destroys the connection as well: one that let a deadline pass may be dead, and must not delay recovery.
      if (question.batch.waiting === 0) question.batch.abort.abort();
    }
    finish();
  };

  const fail = (question: Question<Item, Answer>, reason: string, cause?: unknown): void =>
    settle(question, () => question.reject(settings.unavailable(reason, cause)));

  const dispatch = async (questions: Question<Item, Answer>[]): Promise<void> => {
    const batch: Batch = { waiting: questions.length, abort: new AbortController() };
    for (const question of questions) question.batch = batch;
    running.add(batch);
    try {
      const answers = await settings.send(
        questions.map(({ item }) => item),
        batch.abort.signal,
      );
      if (answers.length !== questions.length) {
        throw new Error(`expected ${questions.length} answers, got ${answers.length}`);
      }
      // The answers are in: the connection is healthy, so nothing is aborted any more.
      for (const question of questions) question.batch = null;
      questions.forEach((question, at) => {
        try {
          const answer = settings.read(question.item, answers[at]);
          settle(question, () => question.resolve(answer));
        } catch (error) {
          fail(question, "it answered nonsense", error);
        }
      });
    } catch (error) {
      for (const question of questions) question.batch = null;
      for (const question of questions) fail(question, "it could not be asked", error);
    } finally {
      running.delete(batch);
      flush();
    }
  };

  const flush = (): void => {
    scheduled = false;
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

  return {
    ask: (item, budgetMs) =>
      new Promise((resolve, reject) => {
        if (closed) return reject(settings.unavailable("its client is closed"));
        const question: Question<Item, Answer> = {
          item,
          resolve,
          reject,
          cancelDeadline: () => {},
          settled: false,
          batch: null,
        };
        question.cancelDeadline = startDeadline(budgetMs, () => fail(question, `no answer within ${budgetMs} ms`));
        queue.push(question);
        if (!scheduled) {
          scheduled = true;
          setImmediate(flush);
        }
      }),
    close: () => {
      closed = true;
      for (const question of queue) fail(question, "its client was closed");
      for (const batch of running) batch.abort.abort();
    },
  };
};
