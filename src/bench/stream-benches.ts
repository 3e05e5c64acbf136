/** Events a second, and memory per stream, against a bare `node:http` server that writes the same frames when due. */

import { request } from "undici";
import { routeOf } from "../contract/routes.ts";
import { pause } from "../supervision/waiting.ts";
import {
  type Bench,
  type BenchRoom,
  type Block,
  compare,
  doubtsOfClient,
  inTurn,
  plainBlock,
  rateRows,
  watchHost,
} from "./comparison.ts";
import { callsOf, startDeployment } from "./deployment.ts";
import type { BareOptions } from "./processes/bare-process.ts";
import { type BenchChild, startBenchChild } from "./processes/child.ts";
import { openStreams, type StreamRequest } from "./stream-client.ts";

const STREAMS = 1_000;
const PATH = routeOf("chat.control").path;
const BODY = JSON.stringify({ messages: [{ role: "user", content: "where is the station?" }] });
/** Streams open over this time, so that their phases are spread. */
const RAMP_MS = 1_000;
/** Memory is measured this long after the streams opened, when the garbage of opening has been collected. */
const SETTLE_MS = 1_500;
/** Flowing: 51,000 events a second in all, so that no process is saturated and every event is a write of its own. */
const PACE = { flowing: { tokens: 100, serviceMs: 2_000 }, held: { tokens: 20, serviceMs: 300_000 } };

type Side = AsyncDisposable & StreamRequest & { server: BenchChild };

const startOurs = async (
  { supervisor }: BenchRoom,
  { tokens, serviceMs }: { tokens: number; serviceMs: number },
  nodeArguments: readonly string[] = [],
): Promise<Side> => {
  const api = { inference: { slots: 1_000_000, tokens, serviceMs }, streamLimits: { keepAliveMs: 600_000 } };
  const deployment = await startDeployment(supervisor, { api, nodeArguments });
  return {
    server: deployment.api,
    url: deployment.url + PATH,
    headers: callsOf(deployment).load.headers,
    body: BODY,
    [Symbol.asyncDispose]: () => deployment[Symbol.asyncDispose](),
  };
};

/** The frames that the platform sends, taken from one quick stream. */
const framesOf = async (room: BenchRoom, tokens: number): Promise<string[]> => {
  await using ours = await startOurs(room, { tokens, serviceMs: 10 });
  const answer = await request(ours.url, { method: "POST", headers: ours.headers, body: BODY });
  const frames = (await answer.body.text()).split(/(?<=\n\n)/);
  if (frames.length < tokens) throw new Error(`expected at least ${tokens} events, got ${frames.length}`);
  return frames;
};

const startBare = async (
  { supervisor }: BenchRoom,
  frames: string[],
  durationMs: number,
  nodeArguments: readonly string[] = [],
): Promise<Side> => {
  const headers = ["Content-Type", "text/event-stream", "Cache-Control", "no-store", "X-Accel-Buffering", "no"];
  const options: BareOptions = { kind: "streams", headers, frames, durationMs };
  const server = await startBenchChild(supervisor, "bare-process.ts", options, nodeArguments);
  const { url } = server.made as { url: string };
  return {
    server,
    url: url + PATH,
    headers: { "content-type": "application/json" },
    body: BODY,
    [Symbol.asyncDispose]: server.end,
  };
};

const countEvents = async (side: Side, durationMs: number): Promise<Block> => {
  await using streams = await openStreams(side, STREAMS, RAMP_MS);
  const { begun } = streams.seen;
  const disturbed = watchHost();
  const before = await side.server.usage();
  const beganMs = performance.now();
  const { eventsPerS, clientCpu } = await streams.count(durationMs);
  const elapsedUs = (performance.now() - beganMs) * 1000;
  const cpuUs = (await side.server.usage()).cpuUs - before.cpuUs;
  const disturbances = disturbed();
  const doubts = doubtsOfClient(clientCpu, cpuUs / elapsedUs);
  if (begun < STREAMS || streams.seen.refused + streams.seen.lost > 0) doubts.push("streams were refused or lost");
  return { value: eventsPerS, cpuUsEach: cpuUs / ((eventsPerS * elapsedUs) / 1e6), doubts, disturbances };
};

const events: Bench = {
  name: "events",
  what: `events a second, and for a second of CPU time, over ${STREAMS} streams against bare node:http at the same pace`,
  run: async (settings, room) => {
    const frames = await framesOf(room, PACE.flowing.tokens);
    await using ours = await startOurs(room, PACE.flowing);
    await using bare = await startBare(room, frames, PACE.flowing.serviceMs);
    const blockOf = (side: Side) => (durationS: number) => countEvents(side, durationS * 1_000);
    const pairs = await inTurn(settings, blockOf(ours), blockOf(bare));
    return rateRows({ name: events.name, what: events.what, target: { atLeast: 0.8 } }, "events", pairs);
  },
};

/** Measures KiB of resident memory per open stream, in a new server that has had a few streams before. */
const weighStream = async (start: () => Promise<Side>): Promise<Block> => {
  await using side = await start();
  const weigh = async (): Promise<number> => {
    await pause(SETTLE_MS);
    await side.server.ask(null);
    return (await side.server.usage()).rssBytes;
  };
  {
    await using _before = await openStreams(side, STREAMS / 5, 100);
  }
  const before = await weigh();
  await using _weighed = await openStreams(side, STREAMS, 300);
  return plainBlock(((await weigh()) - before) / STREAMS / 1024);
};

const memory: Bench = {
  name: "stream-memory",
  what: `resident memory that each of ${STREAMS} open streams adds, against bare node:http`,
  run: async ({ rounds, blockS }, room) => {
    const { tokens, serviceMs } = PACE.held;
    const frames = await framesOf(room, tokens);
    const withGc = ["--expose-gc"];
    const pairs = await inTurn(
      { rounds: Math.ceil(rounds / 3), blockS, warmS: 0 },
      () => weighStream(() => startOurs(room, PACE.held, withGc)),
      () => weighStream(() => startBare(room, frames, serviceMs, withGc)),
    );
    return [compare({ ...memory, unit: "KiB/stream", target: { atMost: 1.3 } }, pairs)];
  },
};

export const STREAM_BENCHES: readonly Bench[] = [events, memory];
