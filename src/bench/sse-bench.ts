/** Measures k6 with many event streams: events while all streams are open, errors of the gaps, memory. */

import { join } from "node:path";
import type { CallLine, Line } from "../history/line.ts";
import type { Sample } from "../history/series.ts";
import { Histogram } from "../history/statistics/histogram.ts";
import { mostAtOnce } from "../history/statistics/statistics.ts";
import { BUSY } from "../history/time-doubts.ts";
import { jsonLines } from "../run/read-run.ts";
import * as bench from "./comparison.ts";
import { type ServerOptions, startServer } from "./server-process.ts";

/** Evaluates a history's calls. From `fromUs` to `toUs`, by the run's clock, all streams are open. */
export const streamEvents = (
  lines: Iterable<CallLine>,
  { gapMs, fromUs, toUs }: { gapMs: number; fromUs: number; toUs: number },
) => {
  const errors = new Histogram();
  const spans: [fromUs: number, toUs: number][] = [];
  let [inside, done, other] = [0, 0, 0];
  for (const { first_us, done_us, first_event_us, gaps_us = [], ended } of lines) {
    if (ended === "done") done += 1;
    else other += 1;
    if (first_us === null || first_event_us === undefined) continue;
    spans.push([first_us, done_us]);
    let atUs = first_event_us;
    if (atUs >= fromUs && atUs < toUs) inside += 1;
    for (const gapUs of gaps_us) {
      atUs += gapUs;
      if (atUs >= fromUs && atUs < toUs) inside += 1;
      errors.record(Math.abs(gapUs - 1_000 * gapMs));
    }
  }
  return {
    perS: inside / ((toUs - fromUs) / 1e6),
    /** 99th percentile of the gaps' absolute errors, in milliseconds. */
    gapErrorMsP99: (errors.quantile(0.99) ?? Number.NaN) / 1_000,
    /** Most streams at once; streams that ended with their terminal event; calls that did not. */
    ...{ held: mostAtOnce(spans), done, other },
  };
};

const EVENTS = 100;
/** Seconds during which all streams are open. */
const FULL_S = 6;
const GAP_ERROR_MS = 25;
const STREAM_MB = 0.3;
const ROUNDS_MAX = 3;

/** `streamS`: how long each stream runs; its `EVENTS` come evenly spread. */
type Shape = { name: string; streams: number; streamS: number };

/** Streams with 50 events a second each; and twice as many with 20 a second, as chats have. */
const SHAPES: readonly Shape[] = [
  { name: "1,500 streams", streams: 1_500, streamS: 2 },
  { name: "3,000 streams", streams: 3_000, streamS: 5 },
];

const serverOf = ({ streamS }: Shape, port: number): ServerOptions => ({
  kind: "pulses",
  port,
  headers: ["Content-Type", "text/event-stream", "Cache-Control", "no-store"],
  frames: Array.from({ length: EVENTS }, (_, i) =>
    i === EVENTS - 1 ? "event: done\ndata: {}\n\n" : `event: token\ndata: {"i":${i}}\n\n`,
  ),
  everyMs: (streamS * 1_000) / EVENTS,
});

type Measured = ReturnType<typeof streamEvents> & { streamMb: number; gapDoubts: string[]; disturbances: string[] };

function* calls(folder: string): Generator<CallLine> {
  for (const line of jsonLines<Line>(join(folder, "history.ndjson"))) if (line.type === "call") yield line;
}

/** The share of all cores' time in use in the busiest second of a window; `NaN` if the machine does not report it. */
const busiestSecond = (folder: string, fromUs: number, toUs: number): number => {
  const shares: number[] = [];
  for (const { at_us, values } of jsonLines<Sample>(join(folder, "samples.ndjson"))) {
    if (at_us >= fromUs && at_us <= toUs && values.host_busy !== undefined) shares.push(values.host_busy);
  }
  return shares.length === 0 ? Number.NaN : Math.max(...shares);
};

const percent = (cores: number | undefined): string => `${Math.round(100 * (cores ?? Number.NaN))} %`;

const measure = async (room: bench.BenchRoom, { name, streams, streamS }: Shape, target: string): Promise<Measured> => {
  const words = ["chat-past-capacity", "--driver", "k6", "--arrivals", "uniform", "--target", target];
  const load = ["--rate", String(streams / streamS), "--duration", `${streamS + FULL_S}s`];
  const { folder, used, disturbances } = await bench.recordLoad(room, [...words, ...load]);
  let firstUs = Number.POSITIVE_INFINITY;
  for (const { intended_us } of calls(folder)) firstUs = Math.min(firstUs, intended_us);
  const fromUs = firstUs + streamS * 1e6;
  const toUs = fromUs + FULL_S * 1e6;
  const seen = streamEvents(calls(folder), { gapMs: (streamS * 1_000) / EVENTS, fromUs, toUs });
  const busy = busiestSecond(folder, fromUs, toUs);
  const gapDoubts =
    busy > BUSY ? [`up to ${percent(busy)} of all cores' time was in use: gaps contain k6's wait for a core`] : [];
  const k6 = used.get("k6");
  const streamMb = (k6?.rssBytes ?? Number.NaN) / 1e6 / seen.held;
  const sizes = `${seen.held} held, ${seen.other} not done, ${streamMb.toFixed(2)} MB each`;
  const cores = ["server-process", "k6", "floodgate"].map(
    (process) => `${process} ${percent(used.get(process)?.cores)}`,
  );
  const figures = `${Math.round(seen.perS)} events/s, gaps off by ${seen.gapErrorMsP99.toFixed(1)} ms (p99)`;
  process.stderr.write(`  ${name}: ${figures}, ${sizes}; of a core: ${cores.join(", ")}`);
  process.stderr.write(`; at most ${percent(busy)} of the machine in use\n`);
  return { ...seen, streamMb, gapDoubts, disturbances };
};

const rowsOf = (shape: Shape, all: readonly Measured[]): bench.Row[] => {
  const row = (
    what: string,
    unit: string,
    target: bench.Row["target"],
    wanted: number,
    value: (one: Measured) => number,
  ) => {
    const about = { name: `${shape.name}: ${what}`, what: sse.what, unit, target };
    const block = (one: Measured): bench.Block =>
      bench.plainBlock(value(one), { disturbances: one.disturbances, doubts: what === "gaps" ? one.gapDoubts : [] });
    return bench.compare(about, bench.paired(all.map(block), wanted));
  };
  const wantedPerS = (shape.streams / shape.streamS) * EVENTS;
  return [
    row("events", "events/s", { atLeast: 0.99 }, wantedPerS, ({ perS }) => perS),
    row("gaps", "ms", { atMost: 1 }, GAP_ERROR_MS, ({ gapErrorMsP99 }) => gapErrorMsP99),
    row("memory", "MB", { atMost: 1 }, STREAM_MB, ({ streamMb }) => streamMb),
  ];
};

/** Runs two servers on one port, because so many writes take most of a core. */
const runShape = async (rounds: number, room: bench.BenchRoom, shape: Shape): Promise<bench.Row[]> => {
  const { streams, streamS } = shape;
  const start = (port: number) => startServer(room.supervisor, serverOf(shape, port));
  await using server = await start(0);
  const { url } = server.made;
  await using _another = await start(Number(new URL(url).port));
  const target = bench.writeTarget(room, `${url}/v1`, { slots: streams, service_ms: streamS * 1_000 });
  const times = { length: Math.min(rounds, ROUNDS_MAX) };
  return rowsOf(shape, await Array.fromAsync(times, () => measure(room, shape, target)));
};

export const sse: bench.Bench = {
  name: "sse",
  what: "events a second, the error of their gaps (p99) and k6's memory, on many streams through load chat-past-capacity",
  isLong: true,
  run: async ({ rounds }, room) => (await Array.fromAsync(SHAPES, (shape) => runShape(rounds, room, shape))).flat(),
};
