/**
 * Links to key service and limiter, which may be cut, stalled or refused at any time. Questions of one turn of the event
 * loop travel as one request, each with its own deadline. No question is sent twice.
 */
import { Pool } from "undici";
import { connectorOf, type Network, reasonOf, TCP } from "./http-service.ts";

/** Connections to a service: enough that on a slow link no batch waits for another's answer. Idle ones are closed. */
const CONNECTIONS = 64;
const SILENCE_MS = 30_000;
/** A connection that idles this long is closed, whatever the server offers, so that pools shrink after an outage. */
const IDLE_MS = 4_000;
const BODY_MAX_BYTES = 16 * 1024 * 1024;

type ClientOptions = { connections?: number; connectTimeoutMs: number; network?: Network | undefined };

export const createJsonClient = (
  url: string,
  { network = TCP, connections = CONNECTIONS, connectTimeoutMs }: ClientOptions,
) => {
  const { protocol, origin } = new URL(url);
  if (protocol !== "http:") throw new Error(`expected an http:// address, got ${url}`);
  const pool = new Pool(origin, {
    connections,
    connect: connectorOf(network, connectTimeoutMs),
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
    headersTimeout: SILENCE_MS,
    bodyTimeout: SILENCE_MS,
    maxResponseSize: BODY_MAX_BYTES,
  });
  const headers = { "content-type": "application/json" };

  return {
    /** Rejects unless the answer is 2xx and JSON. An aborting signal ends the connection as well. */
    request: async (method: string, path: string, body: unknown, signal?: AbortSignal): Promise<unknown> => {
      const said = body === undefined ? null : JSON.stringify(body);
      const answer = await pool.request({ method, path, headers, body: said, signal: signal ?? null });
      const text = await answer.body.text();
      if (answer.statusCode < 200 || answer.statusCode > 299) {
        throw new Error(`HTTP ${answer.statusCode}: ${text.slice(0, 200)}`);
      }
      return text === "" ? undefined : JSON.parse(text);
    },
    close: () => pool.destroy(),
  };
};

/** No valid answer within the budget: neither yes nor no. The call is refused (B4), and may have happened. */
export class Unavailable extends Error {
  override name = "Unavailable";
  constructor(dependency: string, reason: string, cause?: unknown) {
    super(`${dependency} gave no valid answer: ${reason}${cause === undefined ? "" : ` (${reasonOf(cause)})`}`, {
      cause,
    });
  }
}

/** A timer that is later than this shows a stall of this process, not the usual jitter. */
const STALL_MS = 20;

/**
 * Calls `onExpired` after `budgetMs`. A stall of this process is not held against the dependency: the deadline waits one
 * more turn of the event loop, in which an answer may be read, and a late timer extends it once by its lateness.
 */
const startDeadline = (budgetMs: number, onExpired: () => void): (() => void) => {
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

/** Reads an answer for each item; an `Error` for an invalid one. Throws if there are not as many answers as items. */
export const readEach = <Item, Answer>(
  items: readonly Item[],
  answers: unknown,
  read: (item: Item, answer: unknown) => Answer,
): (Answer | Error)[] => {
  if (!Array.isArray(answers) || answers.length !== items.length) {
    const got = Array.isArray(answers) ? answers.length : "none";
    throw new Error(`expected a list of ${items.length} answers, got ${got}`);
  }
  return items.map((item, at) => {
    try {
      return read(item, answers[at]);
    } catch (error) {
      return error as Error;
    }
  });
};

/** With two, one batch is decided while the next is on its way; with one, each side would wait for the other. */
const ENOUGH_IN_FLIGHT = 2;
/** How long questions gather for a fuller batch while `ENOUGH_IN_FLIGHT` batches are in flight. */
const LINGER_MS = 2;

type Question<Item, Answer> = {
  item: Item;
  resolve(answer: Answer): void;
  reject(error: Error): void;
  settled: boolean;
  cancelDeadline(): void;
  /** The request that carries the question; it is aborted once no question waits for it. */
  batch: { waiting: number; end(): void } | null;
};

export const createBatcher = <Item, Answer>(settings: {
  /** The name of the service, for messages. */
  dependency: string;
  /** Resolves to each item's answer, in order; an `Error` for an invalid one. `signal`: no question waits any more. */
  send(items: readonly Item[], signal: AbortSignal): Promise<readonly (Answer | Error)[]>;
  maxItems?: number;
  /** The most batches in flight; further questions wait, and their deadlines run. */
  maxInFlight: number;
}) => {
  type Asked = Question<Item, Answer>;
  const { dependency, send, maxItems = 256, maxInFlight } = settings;
  const unavailable = (reason: string, cause?: unknown) => new Unavailable(dependency, reason, cause);
  let asked: Asked[] = [];
  let queue: Asked[] = [];
  const running = new Set<AbortController>();
  let sentMs = 0;
  let lingering: NodeJS.Timeout | undefined;
  let closed = false;

  const settle = (question: Asked, said: Answer | Error): void => {
    if (question.settled) return;
    question.settled = true;
    question.cancelDeadline();
    const { batch } = question;
    if (batch !== null) batch.waiting -= 1;
    if (batch?.waiting === 0) batch.end();
    if (said instanceof Error) question.reject(said);
    else question.resolve(said);
  };

  const dispatch = async (questions: Asked[]): Promise<void> => {
    const abort = new AbortController();
    // Aborting ends the connection too, which may be dead after a missed deadline. An answered request is not aborted.
    const batch = { waiting: questions.length, end: () => abort.abort() };
    for (const question of questions) question.batch = batch;
    running.add(abort);
    const items = questions.map(({ item }) => item);
    const answers = await send(items, abort.signal).then(
      (came) => came.map((one) => (one instanceof Error ? unavailable("it answered nonsense", one) : one)),
      (error: unknown) => items.map(() => unavailable("it could not be asked", error)),
    );
    running.delete(abort);
    batch.end = () => {};
    for (const [at, question] of questions.entries()) settle(question, answers[at] as Answer | Error);
    flush();
  };

  const flush = (): void => {
    clearTimeout(lingering);
    queue = queue.filter(({ settled }) => !settled);
    while (queue.length > 0 && running.size < maxInFlight) {
      const answerIsNear = running.size >= ENOUGH_IN_FLIGHT && performance.now() - sentMs < LINGER_MS;
      if (answerIsNear && queue.length < maxItems) {
        lingering = setTimeout(flush, LINGER_MS);
        return;
      }
      sentMs = performance.now();
      void dispatch(queue.splice(0, maxItems));
    }
  };

  const endTurn = (): void => {
    queue.push(...asked);
    asked = [];
    flush();
  };

  return {
    ask: (item: Item, budgetMs: number): Promise<Answer> =>
      new Promise((resolve, reject) => {
        if (closed) return reject(unavailable("its client is closed"));
        if (asked.length === 0) setImmediate(endTurn);
        const expire = (): void => settle(question, unavailable(`no answer within ${budgetMs} ms`));
        const cancelDeadline = startDeadline(budgetMs, expire);
        const question: Asked = { item, resolve, reject, settled: false, cancelDeadline, batch: null };
        asked.push(question);
      }),
    close: (): void => {
      closed = true;
      for (const question of [...asked, ...queue]) settle(question, unavailable("its client was closed"));
      for (const abort of running) abort.abort();
    },
  };
};

type Lone = { method: string; path: string; body: unknown; read(answer: unknown): unknown };

/** The HTTP link to the service at `url`; `name` is for messages. */
export const openLink = (name: string, { url, ...options }: Omit<ClientOptions, "connections"> & { url: string }) => {
  const dependency = `the ${name} at ${url}`;
  const client = createJsonClient(url, options);
  const alone = createBatcher<Lone, unknown>({
    ...{ dependency, maxItems: 1, maxInFlight: CONNECTIONS },
    send: async ([one], signal) => {
      const { method, path, body, read } = one as Lone;
      return [read(await client.request(method, path, body, signal))];
    },
  });
  const batchers: { close(): void }[] = [alone];
  return {
    /** Batches items into `POST /PATH {PATH: items}`. The reply is `{answers}`: one for each item, in the same order. */
    batched: <Item, Answer>(path: string, read: (item: Item, answer: unknown) => Answer, maxInFlight = CONNECTIONS) => {
      const batcher = createBatcher<Item, Answer>({
        dependency,
        maxInFlight,
        send: async (items, signal) => {
          const said = (await client.request("POST", `/${path}`, { [path]: items }, signal)) as { answers?: unknown };
          return readEach(items, said.answers, read);
        },
      });
      batchers.push(batcher);
      return batcher.ask;
    },
    /** A question that travels alone; `read` throws on an invalid answer. */
    ask: <T>(method: string, path: string, body: unknown, budgetMs: number, read: (answer: unknown) => T): Promise<T> =>
      alone.ask({ method, path, body, read }, budgetMs) as Promise<T>,
    close: async (): Promise<void> => {
      for (const batcher of batchers) batcher.close();
      await client.close();
    },
  };
};
