/**
 * A JSON client over a few kept-alive connections, for links that may be cut, stalled or refused at any time. Nothing is
 * retried. An aborted request takes its connection with it, so that after a heal no dead connection is met again.
 */
import { type Dispatcher, Pool } from "undici";
import { type Network, TCP } from "./network.ts";

type JsonClient = {
  /** Rejects unless the answer is 2xx and JSON. */
  request(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<unknown>;
  /** NDJSON, line by line. */
  lines(path: string): AsyncIterable<unknown>;
  close(): Promise<void>;
};

/** The service answered, but with a refusal; `detail` is its own sentence. */
export class ServiceRefusal extends Error {
  override name = "ServiceRefusal";
  readonly status: number;
  constructor(status: number, detail: string) {
    super(detail);
    this.status = status;
  }
}

/** What idles for so long is closed, whatever the server offers: after an outage a pool is soon as small as before. */
const IDLE_MS = 4_000;

/** The most that is read of one answer: a broken peer must not fill the memory. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

type Heard = { status: number; text: string };

const detailOf = (text: string): string => {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {}
  return text.slice(0, 200);
};

export const createJsonClient = (
  url: string,
  options: { connections: number; connectTimeoutMs: number; network?: Network | undefined },
): JsonClient => {
  const { hostname, port, protocol, origin } = new URL(url);
  if (protocol !== "http:") throw new Error(`expected an http:// address, got ${url}`);
  const pool = new Pool(origin, {
    connections: options.connections,
    pipelining: 1,
    headersTimeout: 30_000,
    bodyTimeout: 30_000,
    maxResponseSize: -1,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: IDLE_MS,
    // Our own connector, because undici counts connect time in steps of half a second.
    connect: (_options, callback) => {
      const { network = TCP } = options;
      const socket = network.connect({
        host: hostname.replace(/^\[|\]$/g, ""),
        port: Number(port === "" ? 80 : port),
      });
      const timer = setTimeout(
        () => socket.destroy(new Error(`no connection within ${options.connectTimeoutMs} ms`)),
        options.connectTimeoutMs,
      );
      const failed = (error: Error): void => {
        clearTimeout(timer);
        callback(error, null);
      };
      socket.once("error", failed).once("connect", () => {
        clearTimeout(timer);
        socket.off("error", failed);
        callback(null, socket);
      });
    },
  });

  /** undici's handlers rather than its streams, which would cost as much as the rest of a request. */
  const ask = (method: string, path: string, body: string | null, signal?: AbortSignal): Promise<Heard> =>
    new Promise((resolve, reject) => {
      let controller: Dispatcher.DispatchController | undefined;
      let status = 0;
      let bytes = 0;
      const chunks: Buffer[] = [];
      const abort = (): void => {
        controller?.abort(signal?.reason);
        reject(signal?.reason);
      };
      if (signal?.aborted) return abort();
      signal?.addEventListener("abort", abort);
      const headers = { "content-type": "application/json" };
      pool.dispatch(
        { method: method as "POST", path, headers, body },
        {
          onRequestStart: (started) => {
            controller = started;
            if (signal?.aborted) abort();
          },
          onResponseStart: (_controller, code) => {
            status = code;
          },
          onResponseData: (answering, chunk) => {
            bytes += chunk.length;
            if (bytes <= MAX_ANSWER_BYTES) chunks.push(chunk);
            else answering.abort(new Error(`expected an answer of at most ${MAX_ANSWER_BYTES} bytes`));
          },
          onResponseEnd: () => {
            signal?.removeEventListener("abort", abort);
            resolve({ status, text: Buffer.concat(chunks).toString("utf8") });
          },
          onResponseError: (_controller, error) => {
            signal?.removeEventListener("abort", abort);
            reject(error);
          },
        },
      );
    });

  return {
    request: async (method, path, body, signal) => {
      const { status, text } = await ask(method, path, body === undefined ? null : JSON.stringify(body), signal);
      if (status < 200 || status > 299) throw new ServiceRefusal(status, detailOf(text));
      return text === "" ? undefined : JSON.parse(text);
    },
    lines: async function* (path) {
      const answer = await pool.request({ method: "GET", path });
      if (answer.statusCode !== 200) throw new ServiceRefusal(answer.statusCode, detailOf(await answer.body.text()));
      let rest = "";
      answer.body.setEncoding("utf8");
      for await (const chunk of answer.body as AsyncIterable<string>) {
        const parts = (rest + chunk).split("\n");
        rest = parts.pop() as string;
        for (const line of parts) if (line !== "") yield JSON.parse(line);
      }
      if (rest !== "") throw new Error("the last line was cut off");
    },
    close: () => pool.destroy(),
  };
};
