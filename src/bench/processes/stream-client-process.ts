/**
 * Counts the events of many open streams over raw sockets: a client that costs next to nothing. Each connection asks
 * for a stream, counts the blank lines that end its events, and asks again when it is over.
 */
import { connect, type Socket } from "node:net";
import { pause } from "../../supervision/waiting.ts";
import { serveParent } from "./child.ts";

export type StreamQuestion =
  /** Opens the streams, spread over `rampMs`; answers once every one has begun. */
  | { do: "open"; url: string; headers: Record<string, string>; body: string; streams: number; rampMs: number }
  | { do: "count"; durationMs: number }
  | { do: "close" };

/** Since the streams were opened; what has neither begun nor failed had not within 20 s. `lost`: connections. */
export type StreamsSeen = Record<"begun" | "events" | "ended" | "refused" | "lost", number>;

export type StreamCount = Pick<StreamsSeen, "ended" | "refused" | "lost"> & { eventsPerS: number; clientCpu: number };

const BEGIN_MS = 20_000;
const BLANK_LINE = "\n\n";
const LAST_CHUNK = Buffer.from("\r\n0\r\n\r\n");
const OK = Buffer.from("HTTP/1.1 200 ");

let sockets: Socket[] = [];
let closing = false;
const NOTHING: StreamsSeen = { begun: 0, events: 0, ended: 0, refused: 0, lost: 0 };
const seen = { ...NOTHING };

const openStream = (url: URL, head: string): void => {
  const socket = connect({ host: url.hostname, port: Number(url.port), noDelay: true });
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
    if (!closing) seen.lost += 1;
  });
};

const open = async (question: Extract<StreamQuestion, { do: "open" }>): Promise<StreamsSeen> => {
  const { headers, body, streams, rampMs } = question;
  const url = new URL(question.url);
  const lines = Object.entries({ host: url.host, ...headers, "content-length": String(Buffer.byteLength(body)) });
  const head = `POST ${url.pathname} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join("")}\r\n${body}`;
  closing = false;
  Object.assign(seen, NOTHING);
  const beganMs = performance.now();
  for (let opened = 0; opened < streams; ) {
    const due = rampMs === 0 ? streams : Math.ceil(((performance.now() - beganMs) / rampMs) * streams);
    for (; opened < Math.min(due, streams); opened += 1) openStream(url, head);
    await pause(1);
  }
  const begun = (): number => seen.begun + seen.refused + seen.lost;
  while (begun() < streams && performance.now() - beganMs < rampMs + BEGIN_MS) await pause(5);
  return { ...seen };
};

const count = async (durationMs: number): Promise<StreamCount> => {
  const before = { ...seen };
  const cpu = process.cpuUsage();
  const beganMs = performance.now();
  await pause(durationMs);
  const elapsedS = (performance.now() - beganMs) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  return {
    eventsPerS: (seen.events - before.events) / elapsedS,
    ...{ ended: seen.ended - before.ended, refused: seen.refused, lost: seen.lost },
    clientCpu: (user + system) / 1e6 / elapsedS,
  };
};

const close = async (): Promise<null> => {
  closing = true;
  for (const socket of sockets) socket.destroy();
  sockets = [];
  await pause(50);
  return null;
};

serveParent(() => ({
  made: null,
  answer: (question: StreamQuestion) =>
    question.do === "open" ? open(question) : question.do === "count" ? count(question.durationMs) : close(),
}));
