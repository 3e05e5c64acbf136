/**
 * Events from many streams through `load chat-past-capacity`, history included, from a bare server that writes each event
 * when it is due: how many arrive, and by how much the slowest hundredth of the gaps between two is off.
 */
import type { Bench } from "./bench.ts";
import { type Block, compare, plainBlock, type Row } from "./comparison.ts";
import { watchHost } from "./host-watch.ts";
import { figureOf, runLoad, writeTarget } from "./load-run.ts";
import type { BareOptions } from "./processes/bare-process.ts";
import { startBenchChild } from "./processes/child-process.ts";

const STREAMS = 1_500;
const STREAM_S = 2;
const EVENTS = 100;
const SECONDS = 8;
const GAP_MS = (STREAM_S * 1_000) / EVENTS;
const WANTED = { perS: (STREAMS / STREAM_S) * EVENTS, gapErrorMs: 25 };
const ROUNDS_MAX = 3;

const server: BareOptions = {
  kind: "streams",
  headers: ["Content-Type", "text/event-stream", "Cache-Control", "no-store"],
  frames: Array.from({ length: EVENTS }, (_, i) =>
    i === EVENTS - 1 ? "event: done\ndata: {}\n\n" : `event: token\ndata: {"i":${i}}\n\n`,
  ),
  durationMs: STREAM_S * 1_000,
};

export const sse: Bench = {
  name: "sse",
  what: `events a second, and the error of their gaps (p99), on ${STREAMS} streams through load chat-past-capacity`,
  isLong: true,
  run: async ({ rounds }, room) => {
    const child = await startBenchChild(room.supervisor, "bare-process.ts", server);
    const target = writeTarget(room, `${(child.made as { url: string }).url}/v1`);
    const perS: Block[] = [];
    const gapErrorMs: Block[] = [];
    try {
      for (let round = 0; round < Math.min(rounds, ROUNDS_MAX); round += 1) {
        const disturbed = watchHost();
        const rate = ["--rate", String(STREAMS / STREAM_S), "--duration", `${SECONDS}s`, "--arrivals", "uniform"];
        const run = await runLoad(room, ["chat-past-capacity", "--driver", "k6", ...rate, "--target", target]);
        const gaps = run.measurements.find(({ name }) => name === "event_gap_ms_p99");
        const disturbances = disturbed();
        perS.push(plainBlock(((gaps?.n ?? 0) + figureOf(run, "streams_done")) / SECONDS, { disturbances }));
        gapErrorMs.push(plainBlock(Math.abs((gaps?.value ?? Number.NaN) - GAP_MS), { disturbances }));
      }
    } finally {
      await child.end();
    }
    const row = (name: string, unit: string, target: Row["target"], ours: Block[], wanted: number): Row =>
      compare(
        { name, what: sse.what, unit, target },
        ours.map((each) => ({ ours: each, against: plainBlock(wanted) })),
      );
    return [
      row("sse events", "events/s", { atLeast: 0.99 }, perS, WANTED.perS),
      row("sse gap error", "ms", { atMost: 1 }, gapErrorMs, WANTED.gapErrorMs),
    ];
  },
};
