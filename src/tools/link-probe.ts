/**
 * Looks at a link from the client's side, byte by byte: one request over a fresh TCP connection, and what came back and
 * how it ended. An experiment uses it to prove that a fault bites; a client library would hide the difference between a
 * refused, a reset, a silent and a cut connection behind its own retries and errors.
 */
import { connect, isIP } from "node:net";

/** How the exchange ended, as the client sees it. `silent`: neither answer nor end within `giveUpMs`. */
type LinkEnd = "complete" | "refused" | "reset" | "closed" | "silent";

export type LinkSeen = {
  ended: LinkEnd;
  connected: boolean;
  bytes: number;
  /** Reads that it came in. */
  pieces: number;
  /** From the connect call, in milliseconds; `null` when no byte came. */
  firstByteMs: number | null;
  doneMs: number;
};

export type LinkProbe = {
  host: string;
  port: number;
  request: string;
  /** Whether all of the answer is there. */
  isComplete: (received: Buffer) => boolean;
  giveUpMs: number;
};

const endOf = (code: string | undefined): LinkEnd => {
  if (code === "ECONNREFUSED") return "refused";
  return code === "ECONNRESET" || code === "EPIPE" ? "reset" : "closed";
};

export const observeLink = ({ host, port, request, isComplete, giveUpMs }: LinkProbe): Promise<LinkSeen> =>
  new Promise((resolve) => {
    const began = performance.now();
    const received: Buffer[] = [];
    let connected = false;
    let firstByteMs: number | null = null;
    const socket = connect({ host, port, family: isIP(host) || 4 });
    const finish = (ended: LinkEnd): void => {
      clearTimeout(timer);
      socket.removeAllListeners();
      socket.on("error", () => {});
      socket.destroy();
      const bytes = received.reduce((sum, chunk) => sum + chunk.length, 0);
      resolve({ ended, connected, bytes, pieces: received.length, firstByteMs, doneMs: performance.now() - began });
    };
    const timer = setTimeout(() => finish("silent"), giveUpMs);
    socket.on("connect", () => {
      connected = true;
      socket.setNoDelay(true);
      socket.write(request);
    });
    socket.on("data", (chunk: Buffer) => {
      firstByteMs ??= performance.now() - began;
      received.push(chunk);
      if (isComplete(Buffer.concat(received))) finish("complete");
    });
    socket.on("end", () => finish("closed"));
    socket.on("error", (error: NodeJS.ErrnoException) => finish(endOf(error.code)));
    socket.on("close", () => finish("closed"));
  });

/** A GET whose answer is complete when as many bytes as its Content-Length says have come. `link` is `host:port`. */
export const httpProbe = (link: string, path: string, giveUpMs: number): LinkProbe => {
  const colon = link.lastIndexOf(":");
  const host = link.slice(0, colon).replace(/^\[|\]$/g, "");
  return {
    host,
    port: Number(link.slice(colon + 1)),
    request: `GET ${path} HTTP/1.1\r\nhost: ${link}\r\nconnection: keep-alive\r\n\r\n`,
    isComplete: (received) => {
      const text = received.toString("latin1");
      const head = text.indexOf("\r\n\r\n");
      if (head < 0) return false;
      const length = /\r\ncontent-length: *(\d+)/i.exec(text.slice(0, head))?.[1];
      return length === undefined ? text.endsWith("0\r\n\r\n") : text.length - head - 4 >= Number(length);
    },
    giveUpMs,
  };
};

export const redisProbe = (host: string, port: number, giveUpMs: number): LinkProbe => ({
  host,
  port,
  request: "*1\r\n$4\r\nPING\r\n",
  isComplete: (received) => received.toString("latin1").endsWith("\r\n"),
  giveUpMs,
});
