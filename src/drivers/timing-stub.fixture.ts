/**
 * A server that records when each call arrived and when it was answered, on the clock that all processes of this host share.
 * Tests compare a driver's times with these. It runs in a thread of its own, which a test can block; while it is blocked, no
 * connection is accepted either.
 */
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { blockThread, wallUs } from "../supervision/waiting.ts";

export type TimingOptions = {
  /** From a call to the head of its answer. */
  delayMs: number;
  /** Of a stream: from the head to the first event, and between two events; four events, then `done`. */
  eventMs: number;
  /** The whole thread stands still for so long, once, when call number `stallAt` has come. */
  stallMs: number;
  stallAt: number;
  /** How many connections wait to be accepted. */
  backlog: number;
};

/** Microseconds since 1970. */
export type Noted = { id: string; cameUs: number; headUs: number; eventsUs: number[]; endedUs: number };

export const EVENTS = 4;

const serve = ({ delayMs, eventMs, stallMs, stallAt, backlog }: TimingOptions): void => {
  const port = parentPort as NonNullable<typeof parentPort>;
  const noted: Noted[] = [];
  const server = createServer((req, res) => {
    const note: Noted = { id: `${req.headers["x-request-id"]}`, cameUs: wallUs(), headUs: 0, eventsUs: [], endedUs: 0 };
    noted.push(note);
    req.resume();
    if (noted.length === stallAt) blockThread(stallMs);
    const event = (left: number): void => {
      note.eventsUs.push(wallUs());
      if (left > 0) {
        res.write(`event: token\ndata: {"text":"${left}"}\n\n`);
        setTimeout(() => event(left - 1), eventMs);
        return;
      }
      note.endedUs = wallUs();
      res.end("event: done\ndata: {}\n\n");
    };
    setTimeout(() => {
      note.headUs = wallUs();
      if (req.url?.includes("/chat") === true) {
        res.writeHead(200, { "content-type": "text/event-stream" }).flushHeaders();
        setTimeout(() => event(EVENTS), eventMs);
        return;
      }
      note.endedUs = note.headUs;
      res.writeHead(200, { "content-type": "application/json" }).end('{"ok":true}');
    }, delayMs);
  });
  server.listen({ port: 0, host: "127.0.0.1", backlog }, () =>
    port.postMessage({ port: (server.address() as AddressInfo).port }),
  );
  port.on("message", () => port.postMessage({ noted }));
};

if (!isMainThread && (workerData as { isTimingStub?: true } | null)?.isTimingStub === true) {
  serve(workerData as TimingOptions);
}

type TimingStub = { url: string; noted(): Promise<Noted[]>; close(): Promise<void> };

export const startTimingStub = async (options: Partial<TimingOptions> = {}): Promise<TimingStub> => {
  const workerOptions = { delayMs: 20, eventMs: 20, stallMs: 0, stallAt: 0, backlog: 511, ...options };
  const worker = new Worker(new URL(import.meta.url), { workerData: { ...workerOptions, isTimingStub: true } });
  const said = <T>(): Promise<T> =>
    new Promise((resolve, reject) => {
      worker.once("message", resolve);
      worker.once("error", reject);
    });
  const { port } = await said<{ port: number }>();
  return {
    url: `http://127.0.0.1:${port}/v1`,
    noted: async () => {
      const answered = said<{ noted: Noted[] }>();
      worker.postMessage("noted?");
      return (await answered).noted;
    },
    close: async () => void (await worker.terminate()),
  };
};
