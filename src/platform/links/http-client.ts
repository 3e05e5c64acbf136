/** A JSON client for links that may be cut, stalled or refused at any time. Nothing is retried. */
import { Pool } from "undici";
import { createPool } from "./connection-pool.ts";
import { requestBytes } from "./kept-connection.ts";
import { type Network, TCP } from "./network.ts";

type JsonClient = {
  /** Rejects unless the answer is 2xx and JSON. A signal that aborts ends the connection as well. */
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

/** Lines that do not come for so long will not come. */
const SILENCE_MS = 30_000;

const detailOf = (text: string): string => {
  try {
    const { error } = JSON.parse(text) as { error?: unknown };
    if (typeof error === "string") return error;
  } catch {}
  return text.slice(0, 200);
};

export const createJsonClient = (
  url: string,
  options: { connections: number; connectTimeoutMs: number; network?: Network | undefined; token?: string },
): JsonClient => {
  const { hostname, host, port, protocol, origin } = new URL(url);
  if (protocol !== "http:") throw new Error(`expected an http:// address, got ${url}`);
  const { network = TCP, connections, connectTimeoutMs, token } = options;
  const authorization: Record<string, string> = token === undefined ? {} : { authorization: `Bearer ${token}` };
  const at = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port === "" ? 80 : port) };
  const pool = createPool({ connect: () => network.connect(at), connectTimeoutMs, connections });
  const headers = { host, "content-type": "application/json", ...authorization };
  /** For answers whose length nobody knows beforehand. */
  let streams: Pool | undefined;

  return {
    request: async (method, path, body, signal) => {
      const said = body === undefined ? undefined : JSON.stringify(body);
      const heard = await pool.ask(requestBytes(method, path, headers, said), signal);
      const text = heard.body.toString("utf8");
      if (heard.status < 200 || heard.status > 299) throw new ServiceRefusal(heard.status, detailOf(text));
      return text === "" ? undefined : JSON.parse(text);
    },
    lines: async function* (path) {
      const connect = { timeout: connectTimeoutMs };
      streams ??= new Pool(origin, { connections, connect, headersTimeout: SILENCE_MS, bodyTimeout: SILENCE_MS });
      const answer = await streams.request({ method: "GET", path, headers: authorization });
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
    close: async () => {
      pool.close();
      await streams?.destroy();
    },
  };
};
