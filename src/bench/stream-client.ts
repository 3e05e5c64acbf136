/** Counts the events of many open streams over raw sockets: a client that costs next to nothing. */
import { connect, type Socket } from "node:net";
import { pause } from "../supervision/waiting.ts";

const BEGIN_MS = 20_000;
const CLOSE_MS = 50;
const BLANK_LINE = "\n\n";
const LAST_CHUNK = Buffer.from("\r\n0\r\n\r\n");
const OK = Buffer.from("HTTP/1.1 200 ");

export type StreamRequest = { url: string; headers: Record<string, string>; body: string };

const headOf = ({ url, headers, body }: StreamRequest): string => {
  const { host, pathname } = new URL(url);
  const lines = Object.entries({ host, ...headers, "content-length": String(Buffer.byteLength(body)) });
  return `POST ${pathname} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
};

/**
 * Each connection requests a stream, counts the blank lines that end its events, and requests the next stream when it ends.
 * Connections open over `rampMs`. Resolves once every stream has begun or failed, at the latest 20 s after the ramp.
 */
export const openStreams = async (request: StreamRequest, streams: number, rampMs: number) => {
  const { hostname: host, port } = new URL(request.url);
  const head = headOf(request);
  const sockets: Socket[] = [];
  let isClosing = false;
  /** `refused`: answers other than a stream; `lost`: lost connections. */
  const seen = { begun: 0, events: 0, ended: 0, refused: 0, lost: 0 };

  const open = (): void => {
    const socket = connect({ host, port: Number(port), noDelay: true });
    sockets.push(socket);
    let isNew = true;
    let hasBegun = false;
    socket.on("connect", () => socket.write(head));
    socket.on("data", (data: Buffer) => {
      if (isNew) {
        isNew = false;
        if (!data.subarray(0, OK.length).equals(OK)) {
          seen.refused += 1;
          socket.destroy();
          return;
        }
        if (!hasBegun) seen.begun += 1;
        hasBegun = true;
      }
      for (let at = data.indexOf(BLANK_LINE); at !== -1; at = data.indexOf(BLANK_LINE, at + 2)) seen.events += 1;
      if (data.length >= LAST_CHUNK.length && data.subarray(-LAST_CHUNK.length).equals(LAST_CHUNK)) {
        seen.ended += 1;
        isNew = true;
        socket.write(head);
      }
    });
    socket.on("error", () => {});
    socket.on("close", () => {
      if (!isClosing) seen.lost += 1;
    });
  };

  const beganMs = performance.now();
  while (sockets.length < streams) {
    const due = rampMs === 0 ? streams : Math.ceil(((performance.now() - beganMs) / rampMs) * streams);
    while (sockets.length < Math.min(due, streams)) open();
    await pause(1);
  }
  const known = (): number => seen.begun + seen.refused + seen.lost;
  while (known() < streams && performance.now() - beganMs < rampMs + BEGIN_MS) await pause(5);
  return {
    seen,
    /** `clientCpu`: share of a core that this process used. */
    count: async (durationMs: number): Promise<{ eventsPerS: number; clientCpu: number }> => {
      const before = seen.events;
      const cpu = process.cpuUsage();
      const fromMs = performance.now();
      await pause(durationMs);
      const elapsedS = (performance.now() - fromMs) / 1000;
      const { user, system } = process.cpuUsage(cpu);
      return { eventsPerS: (seen.events - before) / elapsedS, clientCpu: (user + system) / 1e6 / elapsedS };
    },
    [Symbol.asyncDispose]: (): Promise<void> => {
      isClosing = true;
      for (const socket of sockets) socket.destroy();
      return pause(CLOSE_MS);
    },
  };
};
