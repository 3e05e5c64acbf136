/**
 * The servers of a benchmark, each in a process of its own, so that its CPU time is separate from the client's: the platform's
 * roles; bare servers that answer the same bytes; servers that cost next to nothing, for generators and stream readers. This
 * file starts the processes and runs in them: each line on stdin is answered by a line on stdout, and a process ends with stdin.
 */
import { writeSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { fileURLToPath } from "node:url";
import { fastify } from "fastify";
import { startBareServer, startNullServer } from "../drivers/open-loop/bare-server.ts";
import type { Role, RoleOptions, Urls } from "../platform/start-role.ts";
import { NODE_ARGUMENTS } from "../supervision/child.ts";
import { readLines } from "../supervision/lines.ts";
import type { Supervisor } from "../supervision/supervisor.ts";

export type ServerOptions =
  | { kind: "role"; role: Role; options: RoleOptions }
  | { kind: "fastify"; method: "GET" | "POST"; path: string; status: number; body: string }
  | { kind: "streams"; headers: string[]; frames: string[]; durationMs: number }
  /** `headers`: names and values in turn; `everyMs`: whole milliseconds between frames; `port`: 0 for one that is free. */
  | { kind: "pulses"; headers: readonly string[]; frames: readonly string[]; everyMs: number; port: number }
  | { kind: "null" };

/** `cpuUs`: CPU time since the process began, in microseconds. */
type Usage = { cpuUs: number; rssBytes: number };

export type Server<Made = { url: string }> = AsyncDisposable & {
  made: Made;
  /** Collects garbage first if the process has `--expose-gc`, so that it is not counted as the memory of a stream. */
  usage(): Promise<Usage>;
};

const ANSWER_MS = 120_000;

/** Rejects with the process's own message. `options` go over stdin, because secrets do not belong in argv. */
export const startServer = async <Made = { url: string }>(
  supervisor: Supervisor,
  options: ServerOptions,
  nodeArguments: readonly string[] = [],
): Promise<Server<Made>> => {
  const name = `${options.kind} server`;
  const child = await supervisor.start({
    name,
    command: process.execPath,
    args: [...NODE_ARGUMENTS, ...nodeArguments, fileURLToPath(import.meta.url)],
    ends: "at-stdin-eof",
  });
  let asked = 0;
  const ask = async <Answer>(question: ServerOptions | "usage"): Promise<Answer> => {
    asked += 1;
    const begins = new RegExp(`^\\{"n":${asked},`);
    child.stdin?.write(`${JSON.stringify(question)}\n`);
    const said = JSON.parse(await child.waitForLine(begins, { deadlineMs: ANSWER_MS })) as Said<Answer>;
    if ("error" in said) throw new Error(`${name}: ${said.error}`);
    return said.answer;
  };
  const end = async (): Promise<void> => void (await child.stop());
  try {
    return { made: await ask(options), usage: () => ask("usage"), [Symbol.asyncDispose]: end };
  } catch (error) {
    await end();
    throw error;
  }
};

type Said<Answer> = { n: number; answer: Answer } | { n: number; error: string };

const LISTEN = { host: "127.0.0.1", port: 0, backlog: 4096 };

const bareFastify = async ({ method, path, status, body }: ServerOptions & { kind: "fastify" }) => {
  const server = fastify();
  // Parses and writes JSON as Fastify does by default.
  const answer: unknown = method === "GET" ? null : JSON.parse(body);
  if (method === "GET") server.get(path, (_, reply) => void reply.code(status).type("application/json").send(body));
  else server.post(path, (_, reply) => void reply.code(status).send(answer));
  return { url: await server.listen(LISTEN) };
};

/** Writes all frames that are due at once, as the platform does. */
const runFrames = (response: ServerResponse, frames: readonly string[], durationMs: number): void => {
  const beganMs = performance.now();
  let next = 0;
  let timer: NodeJS.Timeout | undefined;
  const dueMs = (i: number): number => (durationMs * (i + 1)) / frames.length;
  const arm = (): void => {
    timer = setTimeout(tick, Math.max(0, Math.ceil(beganMs + dueMs(next) - performance.now())));
  };
  const tick = (): void => {
    const elapsed = performance.now() - beganMs;
    let text = "";
    while (next < frames.length && dueMs(next) <= elapsed) {
      text += frames[next];
      next += 1;
    }
    if (next === frames.length) return void response.end(text);
    if (text !== "") response.write(text);
    arm();
  };
  response.once("close", () => clearTimeout(timer));
  arm();
};

const bareStreams = async ({ headers, frames, durationMs }: ServerOptions & { kind: "streams" }) => {
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
  await new Promise<void>((resolve) => server.listen(LISTEN, resolve));
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
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
const pulses = async ({ headers, frames, everyMs, port: wanted }: ServerOptions & { kind: "pulses" }) => {
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
  const { port } = await startBareServer((_request, socket) => begin(socket), { port: wanted, reusePort: true });
  return { url: `http://127.0.0.1:${port}` };
};

const start = async (options: ServerOptions): Promise<Urls | { url: string }> => {
  if (options.kind === "role") {
    // The bare servers stay bare.
    const { startRole } = await import("../platform/start-role.ts");
    return (await startRole(options.role, { logLevel: "error", ...options.options })).urls;
  }
  if (options.kind === "fastify") return bareFastify(options);
  if (options.kind === "streams") return bareStreams(options);
  if (options.kind === "pulses") return pulses(options);
  return { url: `http://127.0.0.1:${(await startNullServer(() => 0)).port}/v1` };
};

const answer = async (question: ServerOptions | "usage"): Promise<unknown> => {
  if (question !== "usage") return start(question);
  globalThis.gc?.();
  const { user, system } = process.cpuUsage();
  return { cpuUs: user + system, rssBytes: process.memoryUsage.rss() } satisfies Usage;
};

if (import.meta.main) {
  let heard = 0;
  const hear = async (line: string): Promise<void> => {
    heard += 1;
    const n = heard;
    const said = await answer(JSON.parse(line)).then(
      (answer): Said<unknown> => ({ n, answer }),
      (error: Error): Said<unknown> => ({ n, error: error.message }),
    );
    process.stdout.write(`${JSON.stringify(said)}\n`);
  };
  const end = (): never => process.exit(0);
  process.once("SIGTERM", end);
  readLines(process.stdin, hear, end);
}
