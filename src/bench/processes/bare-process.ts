/**
 * Bare servers: a Fastify route and a `node:http` stream that answer the same bytes as the platform, for comparison;
 * and servers that cost next to nothing, for measuring generators and stream readers.
 */
import { writeSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { fastify } from "fastify";
import { startBareServer, startNullServer } from "../../drivers/open-loop/bare-server.ts";
import { type Started, serveParent } from "./child.ts";

export type BareOptions =
  | { kind: "fastify"; method: "GET" | "POST"; path: string; status: number; body: string }
  | { kind: "streams"; headers: string[]; frames: string[]; durationMs: number }
  /** `headers`: names and values in turn; `everyMs`: whole milliseconds between frames; `port`: 0 for one that is free. */
  | { kind: "pulses"; headers: readonly string[]; frames: readonly string[]; everyMs: number; port: number }
  | { kind: "null" };

const BACKLOG = 4096;

const bareFastify = async ({ method, path, status, body }: BareOptions & { kind: "fastify" }): Promise<Started> => {
  const server = fastify();
  // Parses and writes JSON as Fastify does by default.
  const answer: unknown = method === "GET" ? null : JSON.parse(body);
  if (method === "GET") server.get(path, (_, reply) => void reply.code(status).type("application/json").send(body));
  else server.post(path, (_, reply) => void reply.code(status).send(answer));
  const url = await server.listen({ host: "127.0.0.1", port: 0, backlog: BACKLOG });
  return { made: { url }, close: async () => void server.server.closeAllConnections() };
};

/** Writes all frames that are due at once, as the platform does. */
const runFrames = (response: ServerResponse, frames: readonly string[], durationMs: number): void => {
  const beganMs = performance.now();
  let next = 0;
  let timer: NodeJS.Timeout | undefined;
  const dueMs = (i: number): number => (durationMs * (i + 1)) / frames.length;
  const arm = (): void => {
    const inMs = beganMs + dueMs(next) - performance.now();
    timer = setTimeout(tick, Math.max(0, Math.ceil(inMs)));
  };
  const tick = (): void => {
    const elapsed = performance.now() - beganMs;
    let text = "";
    while (next < frames.length && dueMs(next) <= elapsed) {
      text += frames[next];
      next += 1;
    }
    if (next === frames.length) {
      response.end(text);
      return;
    }
    if (text !== "") response.write(text);
    arm();
  };
  response.once("close", () => clearTimeout(timer));
  arm();
};

const bareStreams = async ({ headers, frames, durationMs }: BareOptions & { kind: "streams" }): Promise<Started> => {
  const server = createServer({ noDelay: true }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      JSON.parse(Buffer.concat(chunks).toString("utf8"));
      response.writeHead(200, headers);
      response.flushHeaders();
      runFrames(response, frames, durationMs);
    });
  });
  await new Promise<void>((resolve) => server.listen({ host: "127.0.0.1", port: 0, backlog: BACKLOG }, resolve));
  return {
    made: { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` },
    answer: () => (globalThis as { gc?: () => void }).gc?.(),
    close: async () => void server.closeAllConnections(),
  };
};

/** `fd`: -1 if the next frame has to wait for earlier ones, or the system gives sockets no descriptors. */
type Pulse = { socket: Socket; fd: number; next: number };

const chunkOf = (frame: string): string => `${Buffer.byteLength(frame).toString(16)}\r\n${frame}\r\n`;

/** A socket's file descriptor, which Node does not document. Writing by it costs half as much CPU as by the socket. */
const descriptorOf = (socket: Socket): number => (socket as { _handle?: { fd?: number } | null })._handle?.fd ?? -1;

/** Writes as much of the chunk as the system takes now; the socket sends the rest when it can. */
const write = (stream: Pulse, chunk: Buffer): void => {
  let written = 0;
  try {
    if (stream.fd >= 0) written = writeSync(stream.fd, chunk);
  } catch {} // its buffer is full or the reader has gone: the socket handles both
  if (written === chunk.length) return;
  stream.fd = -1;
  stream.socket.write(chunk.subarray(written));
};

/** Event streams that cost next to nothing: the same frames for every POST, each written when due, from one timer for all. */
const pulses = async (options: BareOptions & { kind: "pulses" }): Promise<Started> => {
  const { headers, frames, everyMs, port: wanted } = options;
  const lines = headers.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${headers[at + 1]}`] : []));
  const head = Buffer.from(["HTTP/1.1 200 OK", ...lines, "Transfer-Encoding: chunked", "", ""].join("\r\n"));
  const chunks = frames.map((frame, at) => Buffer.from(chunkOf(frame) + (at === frames.length - 1 ? "0\r\n\r\n" : "")));
  /** Open streams by the millisecond of the period `everyMs` in which their frames are due. */
  const due: Pulse[][] = Array.from({ length: everyMs }, () => []);
  let open = 0;
  let doneMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const sendDue = (streams: Pulse[]): void => {
    let kept = 0;
    for (const stream of streams) {
      if (!stream.socket.destroyed) write(stream, chunks[stream.next] as Buffer);
      stream.next += 1;
      if (stream.socket.destroyed || stream.next === chunks.length) continue;
      streams[kept] = stream;
      kept += 1;
    }
    open -= streams.length - kept;
    streams.length = kept;
  };
  const tick = (): void => {
    const nowMs = Math.floor(performance.now());
    while (doneMs < nowMs) {
      doneMs += 1;
      sendDue(due[doneMs % everyMs] as Pulse[]);
    }
    timer = open === 0 ? undefined : setTimeout(tick, 1);
  };
  const begin = (socket: Socket): void => {
    socket.write(head);
    if (timer === undefined) doneMs = Math.floor(performance.now());
    due[doneMs % everyMs]?.push({ socket, fd: socket.writableLength === 0 ? descriptorOf(socket) : -1, next: 0 });
    open += 1;
    timer ??= setTimeout(tick, 1);
  };
  const { port, close } = await startBareServer((_request, socket) => begin(socket), { port: wanted, reusePort: true });
  return {
    made: { url: `http://127.0.0.1:${port}` },
    close: async () => {
      clearTimeout(timer);
      close();
    },
  };
};

const nothing = async (): Promise<Started> => {
  const server = await startNullServer(() => 0);
  return { made: { url: `http://127.0.0.1:${server.port}/v1` }, close: async () => server.close() };
};

serveParent<BareOptions>((options) => {
  if (options.kind === "fastify") return bareFastify(options);
  if (options.kind === "streams") return bareStreams(options);
  return options.kind === "pulses" ? pulses(options) : nothing();
});
