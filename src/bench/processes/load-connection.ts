/**
 * One connection of the closed loop: the same request again and again, one at a time. Raw sockets, because a client that makes
 * objects of every answer takes longer than the server that gives it, and would be what is measured.
 */
import { connect } from "node:net";

export type Connection = {
  /** Writes the request. Only when the answer to the last one has come. */
  ask(): void;
  /** It fails, unless it has. */
  close(): void;
};

export type ConnectionEvents = {
  /** It can be asked. */
  ready(connection: Connection): void;
  /** An answer has come whole. */
  answered(connection: Connection, status: string): void;
  /** The connection is gone, or said what is no answer with a length; it is over. */
  failed(connection: Connection): void;
};

const HEAD_END = "\r\n\r\n";
const LENGTH = /\r\ncontent-length: *(\d+)\r\n/i;
const STATUS = /^HTTP\/1\.1 (\d{3}) /;

/** What a request looks like on the wire. */
export const requestBytes = (
  method: string,
  url: URL,
  headers: Readonly<Record<string, string>>,
  body: string | undefined,
): Buffer => {
  const all = {
    host: url.host,
    ...headers,
    ...(body === undefined ? {} : { "content-length": Buffer.byteLength(body) }),
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}\r\n`);
  return Buffer.from(`${method} ${url.pathname}${url.search} HTTP/1.1\r\n${lines.join("")}\r\n${body ?? ""}`);
};

/** The first answer in a text of one character a byte: its status and length; `null` while its head is not whole. */
export const readAnswer = (text: string): { status: string; length: number } | null => {
  const headLength = text.indexOf(HEAD_END);
  if (headLength === -1) return null;
  const head = text.slice(0, headLength + 2);
  const status = STATUS.exec(head)?.[1];
  const length = LENGTH.exec(head)?.[1];
  if (status === undefined || length === undefined) throw new Error(`expected an answer with a length, got ${head}`);
  return { status, length: headLength + HEAD_END.length + Number(length) };
};

export const openConnection = (url: URL, request: Buffer, on: ConnectionEvents): Connection => {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
  const connection: Connection = { ask: () => void socket.write(request), close: () => void socket.destroy() };
  let heard = "";
  const hear = (text: string): void => {
    heard += text;
    const answer = readAnswer(heard);
    if (answer === null || heard.length < answer.length) return;
    // Nothing was asked beyond this answer.
    if (heard.length > answer.length) throw new Error("expected one answer to one request");
    heard = "";
    on.answered(connection, answer.status);
  };
  socket.setEncoding("latin1");
  socket.on("connect", () => on.ready(connection));
  socket.on("data", (text: unknown) => {
    try {
      hear(text as string);
    } catch {
      socket.destroy();
    }
  });
  socket.on("error", () => {});
  socket.on("close", () => on.failed(connection));
  return connection;
};
