/**
 * P10 over a real connection: how a stream ended and what it said is a matter of its events alone. The driver's exchange reads
 * what a server writes in any pieces, with comments and unknown events between, and cut off at any point; what comes after the
 * terminal event is never taken for a part of the answer, and an end without one is never taken for success.
 */

import { createServer, type Socket } from "node:net";
import fc from "fast-check";
import { Agent } from "undici";
import { afterAll, beforeAll, expect } from "vitest";
import { sendRequest } from "../src/client/send-request.ts";
import type { Stream } from "../src/contract/routes.ts";
import { ERROR_EVENT, KEEP_ALIVE, lastEventOf, VOCABULARIES, writeEvent } from "../src/contract/streams.ts";
import { createRunClock, wallUs } from "../src/supervision/waiting.ts";
import { TIMEOUTS } from "../src/workload/timeouts.ts";
import { law } from "./laws/law.ts";
import { chunksOf } from "./model/arbitraries.ts";

type Played = { chunks: Uint8Array[]; cut: "clean" | "mid-body" };

let played: Played = { chunks: [], cut: "clean" };
let origin: string;
const agent = new Agent({ headersTimeout: 0, bodyTimeout: 0 });
const clock = createRunClock(wallUs());
const HEAD =
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n";

const play = async (socket: Socket, { chunks, cut }: Played): Promise<void> => {
  socket.write(HEAD);
  for (const chunk of chunks) {
    if (chunk.length === 0) continue;
    socket.write(Buffer.concat([Buffer.from(`${chunk.length.toString(16)}\r\n`), chunk, Buffer.from("\r\n")]));
    // Pieces of their own on the way as well.
    await new Promise((resolve) => setImmediate(resolve));
  }
  if (cut === "clean") socket.end("0\r\n\r\n");
  else socket.end();
};
const server = createServer((socket) => {
  socket.setNoDelay(true).on("error", () => {});
  socket.once("data", () => void play(socket, played));
});
beforeAll(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  origin = `http://127.0.0.1:${(server.address() as { port: number }).port}`;
});
afterAll(async () => {
  await agent.destroy();
  await new Promise((resolve) => server.close(resolve));
});

const UNKNOWN = ["telemetry", "Done", "message", "errors"];
const textArb = fc.oneof(fc.string({ unit: "binary", maxLength: 12 }), fc.constant("\n\nevent: done\ndata: {}\n\n"));
const noiseArb = fc.oneof(
  fc.constantFrom(KEEP_ALIVE, ":\n", "retry: 9\n\n", "id: 7\n\n", "unknown: x\n\n"),
  fc.tuple(fc.constantFrom(...UNKNOWN), textArb).map(([name, text]) => writeEvent(name, { text })),
);
const scriptArb = fc.constantFrom<Stream>("control", "summary", "button").chain((stream) => {
  const { content, done } = VOCABULARIES[stream];
  const contentArb = fc.tuple(fc.constantFrom(...content), textArb);
  return fc.record({
    stream: fc.constant(stream),
    said: fc.array(contentArb, { maxLength: 5 }),
    end: fc.constantFrom<[string, "done" | "error_event"] | null>([done, "done"], [ERROR_EVENT, "error_event"], null),
    after: fc.array(contentArb, { maxLength: 2 }),
    noise: fc.array(fc.tuple(fc.nat(), noiseArb), { maxLength: 5 }),
    cuts: fc.array(fc.nat({ max: 10_000 }), { maxLength: 8 }),
    cut: fc.constantFrom<Played["cut"]>("clean", "mid-body"),
  });
});

law(
  "P10 over the wire a stream ends as its events say, whatever noise and pieces it comes in",
  () =>
    fc.asyncProperty(scriptArb, async ({ stream, said, end, after, noise, cuts, cut }) => {
      const frames = said.map(([name, text]) => writeEvent(name, { text }));
      if (end !== null) frames.push(writeEvent(end[0], { type: end[0] }));
      const slots = frames.map((frame) => [frame]);
      // Noise before the end only: whatever comes behind it is of no account, and told as late.
      for (const [at, text] of noise) slots[at % Math.max(1, slots.length)]?.unshift(text);
      const late = end === null ? [] : after.map(([name, text]) => writeEvent(name, { text }));
      const bytes = new TextEncoder().encode([...slots.flat(), ...late].join(""));
      played = { chunks: chunksOf(bytes, cuts), cut };
      const request = {
        origin,
        path: "/",
        method: "POST" as const,
        headers: [],
        stream: lastEventOf(stream),
        keepEvents: true,
      };
      const answer = await sendRequest(agent, request, clock, TIMEOUTS);

      // Without a terminal event: an end of its own kind, never that of a whole stream.
      const expected = end?.[1] ?? (cut === "clean" ? "eof" : "truncated");
      expect(answer.ended, `ended ${cut}`).toBe(expected);
      const kept = (answer.seen?.kept ?? []).filter(({ name }) => !UNKNOWN.includes(name));
      const delivered = kept.slice(0, kept.length - (answer.seen?.late ?? 0));
      const told = said.map(([name, text]) => ({ name, data: JSON.stringify({ text }) }));
      if (end !== null) told.push({ name: end[0], data: JSON.stringify({ type: end[0] }) });
      expect(delivered, "what was delivered").toEqual(told);
      expect(answer.seen?.late, "events after the end").toBe(late.length);
    }),
  { quick: 150, nightly: 5_000 },
);
