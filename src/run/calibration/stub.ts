/**
 * The server of a calibration, whose delays are known because it makes them. This file starts its thread and runs in it.
 * It is a bare server, because its own overhead would count as the driver's error.
 */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { parentPort, Worker, workerData } from "node:worker_threads";
import { ROUTE_NAMES, type RouteName, routeOf, type Stream } from "../../contract/routes.ts";
import { VOCABULARIES, writeEvent } from "../../contract/streams.ts";
import { startBareServer, startNullServer } from "../../drivers/open-loop/bare-server.ts";
import type { Stamp, StampKind } from "../../history/calibration-checks.ts";
import { blockThread, inTime, wallUs } from "../../supervision/waiting.ts";

/** How long the first two phases of a schedule take. The stall is over, with its effects, at the end of the second. */
export const STEADY_S = 2.2;
export const STALLED_S = 1;
export const STALL_S = 0.2;
/** When the stall begins, after the start of its phase. */
const STALL_AFTER_S = 0.2;

/** `firstUs` resets the stub, which then waits for the call that is due so long after the start of the next schedule. */
type ToStub = { firstUs: number } | "report" | "look";

type StubReport = { stamps: Stamp[]; stoodStillUs: number };
/** Requests that the null server beside the stub received since the last look: how many, and when the last came. */
type StubLook = { calls: number; lastUs: number };
type StubPorts = { port: number; nullPort: number };

const MARK = "floodgate-calibration-stub";
const ANSWER_MS = 10_000;

export type CalibrationStub = Awaited<ReturnType<typeof startCalibrationStub>>;

export const startCalibrationStub = async () => {
  const thread = new Worker(new URL(import.meta.url), { workerData: MARK });
  const gone = Promise.withResolvers<never>();
  gone.promise.catch(() => undefined);
  const failed = (why: string): Error => new Error(`the stub of the calibration: ${why}`);
  thread.on("error", ({ message }) => gone.reject(failed(message)));
  thread.on("exit", (code) => gone.reject(failed(`it ended (${code})`)));
  const answer = async <T>(question?: ToStub): Promise<T> => {
    if (question !== undefined) thread.postMessage(question);
    const came = await inTime(Promise.race([once(thread, "message") as Promise<[T]>, gone.promise]), ANSWER_MS);
    if (came === "late") throw failed(`it did not answer for ${ANSWER_MS / 1000} s`);
    return came[0];
  };
  const end = async (): Promise<void> => void (await thread.terminate());
  try {
    const { port, nullPort } = await answer<StubPorts>();
    return {
      url: `http://127.0.0.1:${port}/v1`,
      nullUrl: `http://127.0.0.1:${nullPort}/v1`,
      begin: (firstUs: number) => answer({ firstUs }),
      look: () => answer<StubLook>("look"),
      report: () => answer<StubReport>("report"),
      end,
    };
  } catch (error) {
    await end();
    throw error;
  }
};

const DELAY_MS = 20;
const EVENTS = 4;
const EVENT_EVERY_MS = 15;
/** One in three of the plain routes is delayed. */
const DELAYED = new Set<RouteName>(["poi.enrich", "design.themes"]);

/** The state of one schedule, which begins with the first call that comes. */
const waitingFor = (firstUs: number | null) => {
  return { firstUs, startUs: null as number | null, stamps: [] as Stamp[], stoodStillUs: 0 };
};
let playing = waitingFor(null);

const standStill = (): void => {
  const fromUs = wallUs();
  blockThread(STALL_S * 1000);
  playing.stoodStillUs += wallUs() - fromUs;
};

const begin = (receivedUs: number): void => {
  const { firstUs, startUs } = playing;
  if (firstUs === null || startUs !== null) return;
  playing.startUs = receivedUs - firstUs;
  const passedMs = (wallUs() - playing.startUs) / 1000;
  setTimeout(standStill, Math.max(0, (STEADY_S + STALL_AFTER_S) * 1000 - passedMs));
};

const isNullAt = (nowUs: number) => playing.startUs !== null && nowUs >= playing.startUs + (STEADY_S + STALLED_S) * 1e6;

const PLAIN = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 11\r\n\r\n{"ok":true}';
const STREAM_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const LAST_CHUNK = "0\r\n\r\n";
const chunk = (text: string): string => `${text.length.toString(16)}\r\n${text}\r\n`;

/** Returns the text of each event of a stream; the head goes with the first and the end with the last. */
const streamOf = (kind: Stream, events: number): string[] => {
  const { content, done } = VOCABULARIES[kind];
  return Array.from({ length: events }, (_, at) => {
    const isLast = at === events - 1;
    const event = chunk(isLast ? writeEvent(done, {}) : writeEvent(content[0] as string, { text: "a" }));
    return (at === 0 ? STREAM_HEAD : "") + event + (isLast ? LAST_CHUNK : "");
  });
};

/** `parts` are written one after the other; in the last phase `atOnce` is written instead. */
type Answer = { kind: StampKind; parts: readonly string[]; atOnce: readonly string[] };

const AT_ONCE: Answer = { kind: "at once", parts: [PLAIN], atOnce: [PLAIN] };

const answerOf = (name: RouteName): Answer => {
  const { stream } = routeOf(name);
  if (stream !== undefined) return { kind: "stream", parts: streamOf(stream, EVENTS), atOnce: streamOf(stream, 1) };
  return DELAYED.has(name) ? { ...AT_ONCE, kind: "delayed" } : AT_ONCE;
};

const answers = new Map(ROUTE_NAMES.map((name) => [routeOf(name).path, answerOf(name)]));

const write = (parts: readonly string[], socket: Socket, stamp: Stamp, at = 0): void => {
  stamp.last_us = wallUs();
  if (at === 0) stamp.answered_us = stamp.last_us;
  socket.write(parts[at] as string);
  if (at + 1 < parts.length) setTimeout(write, EVENT_EVERY_MS, parts, socket, stamp, at + 1);
};

const pathOf = (request: string): string => {
  const target = request.slice(request.indexOf(" ") + 1, request.indexOf(" HTTP/"));
  return target.replace(/\?.*$/, "").replace(/^\/v1/, "");
};

const answer = (request: string, socket: Socket): void => {
  const receivedUs = wallUs();
  begin(receivedUs);
  const { kind, parts, atOnce } = answers.get(pathOf(request)) ?? AT_ONCE;
  const isNull = isNullAt(receivedUs);
  const id = /\r\nx-request-id: *(\S+)/i.exec(request)?.[1] ?? "";
  const times = { received_us: receivedUs, answered_us: receivedUs, last_us: receivedUs };
  const stamp: Stamp = { id, kind: isNull ? "at once" : kind, ...times };
  playing.stamps.push(stamp);
  if (stamp.kind === "delayed") setTimeout(write, DELAY_MS, parts, socket, stamp);
  else write(isNull ? atOnce : parts, socket, stamp);
};

const WARM_CALLS = 2_000;

/** Warms up a server, because slow, freshly loaded code would count as the driver's error. */
const warmUp = async (at: number): Promise<void> => {
  const socket = connect(at, "127.0.0.1").resume();
  socket.on("error", () => undefined);
  for (let n = 0; n < WARM_CALLS; n++) {
    const { path } = routeOf(ROUTE_NAMES[n % ROUTE_NAMES.length] as RouteName);
    socket.write(`GET /v1${path} HTTP/1.1\r\nx-request-id: warm-up-${n}\r\n\r\n`);
    if (n % 20 === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  }
  await new Promise((resolve) => setTimeout(resolve, DELAY_MS + EVENTS * EVENT_EVERY_MS));
  socket.destroy();
};

const serve = async (): Promise<void> => {
  const { port } = await startBareServer(answer);
  const nullServer = await startNullServer(wallUs);
  await warmUp(port);
  await warmUp(nullServer.port);
  nullServer.look();
  const answerTo = (question: ToStub): StubReport | StubLook | null => {
    if (question === "look") return nullServer.look();
    if (question === "report") return { stamps: playing.stamps, stoodStillUs: playing.stoodStillUs };
    playing = waitingFor(question.firstUs);
    return null;
  };
  parentPort?.on("message", (question: ToStub) => parentPort?.postMessage(answerTo(question)));
  parentPort?.postMessage({ port, nullPort: nullServer.port } satisfies StubPorts);
};

if (workerData === MARK) await serve();
