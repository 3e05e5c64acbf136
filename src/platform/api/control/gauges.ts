/** What a replica reports about itself at this moment (`GET /gauges`). */
import { readdirSync } from "node:fs";
import { type ELDHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { ApiContext } from "../context.ts";

export type Gauges = ProcessGauges & {
  in_flight: number;
  in_flight_by_org: Record<string, number>;
  sockets: number;
  link_sockets?: number;
  event_loop_lag_ms_p99: number;
  unsettled: number;
  inference_running: number;
  inference_waiting: number;
  open_streams: number;
  credential_conflicts: number;
};

const LAG_RESOLUTION_MS = 10;

export const watchLag = (): ELDHistogram => {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  lag.enable();
  return lag;
};

/** `collectsFirst`: what is garbage is not counted. Each reading begins a new interval of the event loop's lag. */
export const readGauges = (
  context: ApiContext,
  lag: ELDHistogram,
  openSockets: number,
  collectsFirst = false,
): Gauges => {
  const lagMs = Math.max(0, lag.percentile(99) / 1e6 - LAG_RESOLUTION_MS);
  lag.reset();
  return {
    in_flight: context.shedder.inFlight(),
    in_flight_by_org: context.shedder.inFlightByOrganization(),
    sockets: openSockets,
    event_loop_lag_ms_p99: Number.isFinite(lagMs) ? Math.round(lagMs * 100) / 100 : 0,
    ...readProcessGauges(collectsFirst),
    unsettled: context.settlement.unsettled(),
    inference_running: context.inference.running,
    inference_waiting: context.inference.waiting,
    open_streams: context.openStreams.size,
    credential_conflicts: context.credentialConflicts,
  };
};

type ProcessGauges = {
  rss_bytes: number;
  heap_bytes: number;
  /** Timers that keep the process alive. */
  timers: number;
  /** Files, sockets and pipes; `null` where the system does not show them. */
  open_files: number | null;
};

let collect: (() => void) | null = null;

/** Garbage that is still lying about says nothing of what is held. A pause of some ten milliseconds. */
const collectGarbage = (): void => {
  if (collect === null) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
    setFlagsFromString("--no-expose-gc");
  }
  collect();
};

const openFiles = (): number | null => {
  try {
    return readdirSync("/proc/self/fd").length - 1;
  } catch {
    return null;
  }
};

const readProcessGauges = (collectsFirst: boolean): ProcessGauges => {
  if (collectsFirst) collectGarbage();
  const { rss, heapUsed } = process.memoryUsage();
  return {
    rss_bytes: rss,
    heap_bytes: heapUsed,
    timers: process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length,
    open_files: openFiles(),
  };
};
