/** A JSON client for links that may be cut, stalled or refused at any time. Nothing is retried. */
import { type buildConnector, Pool } from "undici";
import { type Network, TCP } from "./network.ts";

export type JsonClient = {
  /** Rejects unless the answer is 2xx and JSON. An aborting signal ends the connection as well. */
  request(method: string, path: string, body: unknown, signal?: AbortSignal): Promise<unknown>;
  close(): Promise<void>;
};

/** Connections to a service: enough that on a slow link no batch waits for another's answer. Idle ones are closed. */
export const CONNECTIONS = 64;
const SILENCE_MS = 30_000;
/** A connection that idles this long is closed, whatever the server offers, so that pools shrink after an outage. */
const IDLE_MS = 4_000;
const BODY_MAX_BYTES = 16 * 1024 * 1024;

export const connectorOf =
  ({ connect }: Network, timeoutMs?: number): buildConnector.connector =>
  ({ hostname, port }, callback) => {
    const socket = connect({ host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || 80) });
    const settle = (error: Error | null): void => {
      clearTimeout(timer);
      socket.off("error", settle).off("connect", connected);
      if (error === null) callback(null, socket);
      else callback(error, null);
    };
    const connected = (): void => settle(null);
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => socket.destroy(new Error(`no connection within ${timeoutMs} ms`)), timeoutMs);
    socket.once("error", settle).once("connect", connected);
  };

export const createJsonClient = (
  url: string,
  options: { connections?: number; connectTimeoutMs: number; network?: Network | undefined },
): JsonClient => {
  const { protocol, origin } = new URL(url);
  if (protocol !== "http:") throw new Error(`expected an http:// address, got ${url}`);
  const { network = TCP, connections = CONNECTIONS, connectTimeoutMs } = options;
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
    request: async (method, path, body, signal) => {
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
