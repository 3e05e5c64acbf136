/**
 * A server of event streams that costs next to nothing, so that their reader is what is measured: it answers every POST with
 * the same frames, each written when it is due and by itself, from one timer for all streams. Several share a port: the system
 * spends most of a core on so many writes, and one process that has to have a whole core is late for every moment without it.
 */
import { writeSync } from "node:fs";
import type { Socket } from "node:net";
import { startBareServer } from "../../drivers/open-loop/bare-server.ts";
import { serveParent } from "./child-side.ts";

export type PulseOptions = {
  /** Names and values in turn. */
  headers: readonly string[];
  frames: readonly string[];
  /** Milliseconds from one frame to the next, a whole number. */
  everyMs: number;
  /** Of the first of several; 0: one that is free. */
  port: number;
};

type Stream = {
  socket: Socket;
  /** -1 where the next frame has to wait for those before it, or the system gives sockets no descriptors. */
  fd: number;
  next: number;
};

const chunkOf = (frame: string): string => `${Buffer.byteLength(frame).toString(16)}\r\n${frame}\r\n`;

/** Node does not document it. A write by the descriptor costs the process half of what one by the socket does. */
const descriptorOf = (socket: Socket): number => (socket as { _handle?: { fd?: number } | null })._handle?.fd ?? -1;

/** Whole, or as much as the system takes now and the rest when it takes more. */
const write = (stream: Stream, chunk: Buffer): void => {
  let written = 0;
  try {
    if (stream.fd >= 0) written = writeSync(stream.fd, chunk);
  } catch {} // it is full, or the reader has gone: the socket sees to both
  if (written === chunk.length) return;
  stream.fd = -1;
  stream.socket.write(chunk.subarray(written));
};

serveParent<PulseOptions>(async ({ headers, frames, everyMs, port: wanted }) => {
  const lines = headers.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${headers[at + 1]}`] : []));
  const head = Buffer.from(["HTTP/1.1 200 OK", ...lines, "Transfer-Encoding: chunked", "", ""].join("\r\n"));
  const chunks = frames.map((frame, at) => Buffer.from(chunkOf(frame) + (at === frames.length - 1 ? "0\r\n\r\n" : "")));
  /** Streams by the millisecond of `everyMs` in which their frames are due, so that each stays where it is. */
  const due: Stream[][] = Array.from({ length: everyMs }, () => []);
  let open = 0;
  let doneMs = 0;
  let timer: NodeJS.Timeout | undefined;
  const sendDue = (streams: Stream[]): void => {
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
      sendDue(due[doneMs % everyMs] as Stream[]);
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
});
