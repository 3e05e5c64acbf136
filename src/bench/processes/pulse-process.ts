/**
 * A server of event streams that costs next to nothing, so that their reader is what is measured: it answers every POST with
 * the same frames, each written when it is due and by itself, from one timer for all streams. Several share a port: the system
 * spends most of a core on so many writes, and one process that has to have a whole core is late for every moment without it.
 */
import type { Socket } from "node:net";
import { startBareServer } from "../../drivers/open-loop/bare-server.ts";
import { serveParent } from "./child-side.ts";

export type PulseOptions = {
  /** Names and values in turn. */
  headers: readonly string[];
  frames: readonly string[];
  /** The frames come evenly spread over so long. */
  durationMs: number;
  /** Of the first of several; 0: one that is free. */
  port: number;
};

type Stream = { socket: Socket; beganMs: number; next: number };

const chunkOf = (frame: string): string => `${Buffer.byteLength(frame).toString(16)}\r\n${frame}\r\n`;

serveParent<PulseOptions>(async ({ headers, frames, durationMs, port: wanted }) => {
  const lines = headers.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${headers[at + 1]}`] : []));
  const head = Buffer.from(["HTTP/1.1 200 OK", ...lines, "Transfer-Encoding: chunked", "", ""].join("\r\n"));
  const chunks = frames.map((frame, at) => Buffer.from(chunkOf(frame) + (at === frames.length - 1 ? "0\r\n\r\n" : "")));
  const everyMs = durationMs / frames.length;
  /** Streams by the millisecond in which their next frame is due. */
  const due = new Map<number, Stream[]>();
  let doneMs = Math.floor(performance.now());
  let timer: NodeJS.Timeout | undefined;
  const put = (stream: Stream): void => {
    const atMs = Math.max(doneMs + 1, Math.ceil(stream.beganMs + everyMs * (stream.next + 1)));
    const there = due.get(atMs);
    if (there === undefined) due.set(atMs, [stream]);
    else there.push(stream);
  };
  const tick = (): void => {
    const nowMs = Math.floor(performance.now());
    while (doneMs < nowMs) {
      doneMs += 1;
      const streams = due.get(doneMs);
      if (streams === undefined) continue;
      due.delete(doneMs);
      for (const stream of streams) {
        if (stream.socket.destroyed) continue;
        stream.socket.write(chunks[stream.next] as Buffer);
        stream.next += 1;
        if (stream.next < chunks.length) put(stream);
      }
    }
    timer = due.size === 0 ? undefined : setTimeout(tick, 1);
  };
  const begin = (socket: Socket): void => {
    socket.write(head);
    if (timer === undefined) doneMs = Math.floor(performance.now());
    put({ socket, beganMs: performance.now(), next: 0 });
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
