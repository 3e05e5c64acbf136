/**
 * A JSON client over a few kept-alive connections, for links that may be cut, stalled or refused at any time. Nothing is
 * retried. An aborted request takes its connection with it, so that after a heal no dead connection is met again.
 */
import { connect as connectSocket } from "node:net";
import { Pool } from "undici";

export type JsonClient = {
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

/** The most that is read of one answer: a broken peer must not fill the memory. */
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

const detailOf = (text: string): string => {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {}
  return text.slice(0, 200);
};

export const createJsonClient = (
  url: string,
  options: { connections: number; connectTimeoutMs: number },
): JsonClient => {
  const { hostname, port, protocol, origin } = new URL(url);
  if (protocol !== "http:") throw new Error(`expected an http:// address, got ${url}`);
  const pool = new Pool(origin, {
    connections: options.connections,
    pipelining: 1,
    headersTimeout: 30_000,
    bodyTimeout: 30_000,
    maxResponseSize: -1,
    // Our own connector, because undici counts connect time in steps of half a second.
    connect: (_options, callback) => {
      const socket = connectSocket({
        host: hostname.replace(/^\[|\]$/g, ""),
        port: Number(port === "" ? 80 : port),
        noDelay: true,
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

  const text = async (body: AsyncIterable<Buffer>): Promise<string> => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    for await (const chunk of body) {
      bytes += chunk.length;
      if (bytes > MAX_ANSWER_BYTES) throw new Error(`expected an answer of at most ${MAX_ANSWER_BYTES} bytes`);
      chunks.push(chunk);
    }
    return Buffer.concat(chunks).toString("utf8");
  };

  return {
    request: async (method, path, body, signal) => {
      const answer = await pool.request({
        method: method as "POST",
        path,
        headers: { "content-type": "application/json" },
        body: body === undefined ? null : JSON.stringify(body),
        ...(signal === undefined ? {} : { signal }),
      });
      const received = await text(answer.body);
      if (answer.statusCode < 200 || answer.statusCode > 299) {
        throw new ServiceRefusal(answer.statusCode, detailOf(received));
      }
      return received === "" ? undefined : JSON.parse(received);
    },
    lines: async function* (path) {
      const answer = await pool.request({ method: "GET", path });
      if (answer.statusCode !== 200) throw new ServiceRefusal(answer.statusCode, detailOf(await text(answer.body)));
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
