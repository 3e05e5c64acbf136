/**
 * Probes a link at the level of bytes: one request over a fresh TCP connection, what came back, and how it ended. A
 * client library's retries would hide the difference between a refused, a reset, a silent and a cut connection.
 */
import { randomInt } from "node:crypto";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, isIP } from "node:net";
import { isLoopbackHost } from "../contract/address.ts";

/** How the exchange ended, as the client sees it. `silent`: neither answer nor end within `giveUpMs`. */
type LinkEnd = "complete" | "refused" | "reset" | "closed" | "silent";

export type LinkSeen = Awaited<ReturnType<typeof observeLink>>;

export type LinkProbe = {
  host: string;
  port: number;
  request: string;
  /** `received`: a character for each byte. */
  isComplete: (received: string) => boolean;
  giveUpMs: number;
  /** Time limit of the connect. `giveUpMs` counts from the connection on. */
  connectMs?: number;
};

/** Reading ends here. So much shows that the link carries an answer, and an endless one would keep the runner busy. */
const ANSWER_MOST_BYTES = 1 << 20;

const ENDS: Readonly<Record<string, LinkEnd>> = { ECONNREFUSED: "refused", ECONNRESET: "reset", EPIPE: "reset" };

export const observeLink = async ({ host, port, request, isComplete, giveUpMs, connectMs }: LinkProbe) => {
  const began = performance.now();
  let received = "";
  let pieces = 0;
  let connected = false as boolean;
  let firstByteMs = null as number | null;
  const { promise, resolve: finish } = Promise.withResolvers<LinkEnd>();
  const socket = connect({ host, port, family: isIP(host) || 4 }).setEncoding("latin1");
  let timer = setTimeout(finish, connectMs ?? giveUpMs, "silent");
  socket.on("connect", () => {
    connected = true;
    if (connectMs !== undefined) {
      clearTimeout(timer);
      timer = setTimeout(finish, giveUpMs, "silent");
    }
    socket.setNoDelay(true);
    socket.write(request);
  });
  socket.on("data", (piece: string) => {
    firstByteMs ??= performance.now() - began;
    received += piece;
    pieces += 1;
    if (received.length > ANSWER_MOST_BYTES || isComplete(received)) finish("complete");
  });
  for (const end of ["end", "close"] as const) socket.on(end, () => finish("closed"));
  socket.on("error", (error: NodeJS.ErrnoException) => finish(ENDS[error.code ?? ""] ?? "closed"));
  const ended = await promise;
  const doneMs = performance.now() - began;
  clearTimeout(timer);
  socket.destroy();
  /** Times count from the connect call. `firstByteMs`: `null` if no byte came. */
  return { ended, connected, bytes: received.length, pieces, firstByteMs, doneMs };
};

export const splitAddress = (address: string): { host: string; port: number } => {
  const colon = address.lastIndexOf(":");
  return { host: address.slice(0, colon).replace(/^\[|\]$/g, ""), port: Number(address.slice(colon + 1)) };
};

/** A GET request, whose answer is complete by its Content-Length or its last chunk. `link` is `host:port`. */
export const httpProbe = (link: string, path: string, giveUpMs: number): LinkProbe => ({
  ...splitAddress(link),
  request: `GET ${path} HTTP/1.1\r\nhost: ${link}\r\nconnection: keep-alive\r\n\r\n`,
  isComplete: (text) => {
    const head = text.indexOf("\r\n\r\n");
    if (head < 0) return false;
    const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1];
    return length === undefined ? text.endsWith("0\r\n\r\n") : text.length - head - 4 >= Number(length);
  },
  giveUpMs,
});

/** `pings` PING commands to Redis. Each is answered by `+PONG`, or by an error if Redis wants a password. */
export const redisProbe = (link: string, giveUpMs: number, pings = 1): LinkProbe => ({
  ...splitAddress(link),
  request: "*1\r\n$4\r\nPING\r\n".repeat(pings),
  isComplete: (text) => /^[+-]/.test(text) && text.split("\r\n").length > pings,
  giveUpMs,
});

/** `host:port` of a proxy: a listener on all addresses is reached on the host of toxiproxy's API. */
export const reachableListener = (listen: string, apiUrl: string): string => {
  const { host, port } = splitAddress(listen);
  if (["", "0.0.0.0", "::"].includes(host)) return `${new URL(apiUrl).hostname}:${port}`;
  return `${host.includes(":") ? `[${host}]` : host}:${port}`;
};

const CONNECT_MS = 1_000;
/** Toxiproxy accepts a connection before it connects to the upstream, and closes it within this time if that fails. */
const PASSED_ON_MS = 200;

/** `refuses`: nothing listens. `closes`: it closes the connection at once. `unseen`: it cannot be reached from here. */
export type Serving = "serves" | "refuses" | "closes" | "unseen";

/** Reports whether a proxy accepts a connection and keeps it open, as a caller would see it. */
export const isServing = async ({ listen }: { listen: string }, apiUrl: string): Promise<Serving> => {
  const { host, port } = splitAddress(reachableListener(listen, apiUrl));
  // The listener is on another machine's loopback, so it cannot be reached from here.
  if (isLoopbackHost(host) && !isLoopbackHost(new URL(apiUrl).hostname)) return "unseen";
  const silently = { request: "", isComplete: () => true, connectMs: CONNECT_MS, giveUpMs: PASSED_ON_MS };
  const { ended, connected } = await observeLink({ host, port, ...silently });
  if (!connected) return ended === "refused" ? "refuses" : "unseen";
  return ended === "complete" || ended === "silent" ? "serves" : "closes";
};

/** Operating systems choose ports for clients, and for servers that name none, above these: Linux from 32768, gVisor from 16000. */
const [PORTS_FROM, PORTS_TO] = [10_000, 16_000];
const PORT_TRIES = 20;

/**
 * Finds a port of 127.0.0.1 that was free a moment ago, for servers that cannot choose one themselves, and for listeners
 * that close for a while: a port that the system had chosen may be given to another program meanwhile.
 */
export const freePort = async (tries = PORT_TRIES): Promise<number> => {
  await using server = createServer().listen(tries === 0 ? 0 : randomInt(PORTS_FROM, PORTS_TO), "127.0.0.1");
  const isFree = await once(server, "listening").then(
    () => true,
    () => false,
  );
  return isFree ? (server.address() as AddressInfo).port : freePort(tries - 1);
};
