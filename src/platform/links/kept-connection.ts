/**
 * HTTP/1.1 over one connection, as much of it as services of ours speak: one request at a time, answered with a length. For
 * links that are asked a thousand times a second: undici, of which so much more is needed elsewhere, took a tenth of all that
 * a read cost the API (`npm run bench -- --only read`), because between two requests its code has left the processor's caches.
 */
import type { Socket } from "node:net";

/** `isLast`: the peer closes the connection behind it. */
export type Heard = { status: number; body: Buffer; isLast: boolean };

export type KeptConnection = {
  /** Writes a request; only when the answer to the last one has come. */
  ask(request: Buffer): void;
  /** It is gone then, for this reason, unless it is already. */
  close(reason?: Error): void;
};

export type ConnectionEvents = {
  /** An answer has come whole; the connection can be asked again. */
  answered(heard: Heard): void;
  /** Once, whatever ended it: the peer, us, or what is no answer. */
  gone(error: Error): void;
};

const HEAD_END = "\r\n\r\n";
const HEAD_MAX_BYTES = 16_384;
/** A broken peer must not fill the memory. */
const BODY_MAX_BYTES = 16 * 1024 * 1024;

const STATUS = /^HTTP\/1\.1 (\d{3}) /;
const LENGTH = /\r\ncontent-length: *(\d+)\r\n/i;
const CLOSE = /\r\nconnection: *close\r\n/i;

/** What a request looks like on the wire. */
export const requestBytes = (
  method: string,
  path: string,
  headers: Readonly<Record<string, string>>,
  body: string | undefined,
): Buffer => {
  const length = body === undefined ? {} : { "content-length": Buffer.byteLength(body) };
  const lines = Object.entries({ ...headers, ...length }).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${method} ${path} HTTP/1.1\r\n${lines.join("")}\r\n${body ?? ""}`);
};

type Head = { status: number; isLast: boolean; bodyFrom: number; end: number };

/** Where an answer ends and what its head says; `null` while the head is not whole. Throws on what is no such answer. */
const readHead = (bytes: Buffer): Head | null => {
  const headBytes = bytes.indexOf(HEAD_END, 0, "latin1");
  if (headBytes === -1 && bytes.length <= HEAD_MAX_BYTES) return null;
  const head = bytes.toString("latin1", 0, headBytes === -1 ? 100 : headBytes + 2);
  const status = STATUS.exec(head)?.[1];
  const length = Number(LENGTH.exec(head)?.[1]);
  if (headBytes === -1 || status === undefined || Number.isNaN(length)) {
    throw new Error(`expected an HTTP/1.1 answer with a Content-Length, got ${head.split("\r\n", 1)}`);
  }
  if (length > BODY_MAX_BYTES) throw new Error(`expected an answer of at most ${BODY_MAX_BYTES} bytes, got ${length}`);
  const bodyFrom = headBytes + HEAD_END.length;
  return { status: Number(status), isLast: CLOSE.test(head), bodyFrom, end: bodyFrom + length };
};

/** `socket`: connected, or about to be. From here on it is the connection's alone. */
export const keepConnection = (socket: Socket, on: ConnectionEvents): KeptConnection => {
  let isAsked = false;
  let chunks: Buffer[] = [];
  let bytes = 0;
  let head: Head | null = null;
  let why = new Error("the connection was closed before an answer had come");

  const close = (reason?: Error): void => {
    if (reason !== undefined) why = reason;
    socket.destroy();
  };

  const hear = (chunk: Buffer): void => {
    if (!isAsked) throw new Error("expected nothing without being asked");
    chunks.push(chunk);
    bytes += chunk.length;
    if (head === null) {
      if (chunks.length > 1) chunks = [Buffer.concat(chunks)];
      head = readHead(chunks[0] as Buffer);
    }
    if (head === null || bytes < head.end) return;
    if (bytes > head.end) throw new Error("expected one answer to one request");
    const { status, isLast, bodyFrom } = head;
    const all = chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks);
    isAsked = false;
    chunks = [];
    bytes = 0;
    head = null;
    on.answered({ status, body: all.subarray(bodyFrom), isLast });
  };

  socket.on("data", (chunk: Buffer) => {
    try {
      hear(chunk);
    } catch (error) {
      close(error as Error);
    }
  });
  socket.on("error", (error) => {
    why = error;
  });
  socket.on("close", () => on.gone(why));
  return {
    ask: (request) => {
      isAsked = true;
      socket.write(request);
    },
    close,
  };
};
