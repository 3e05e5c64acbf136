/** The API's part of the control plane: counts, what a replica reports about itself, and what an operator may change. */
import { readdirSync } from "node:fs";
import { monitorEventLoopDelay } from "node:perf_hooks";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import type { ControlPart } from "../control-plane.ts";
import { route } from "../links/http-service.ts";
import type { ApiContext } from "./context.ts";

const LAG_RESOLUTION_MS = 10;

let collect: (() => void) | null = null;

/** Collects garbage, which would count as memory in use. Pauses the process for some ten milliseconds. */
const collectGarbage = (): void => {
  if (collect === null) {
    setFlagsFromString("--expose-gc");
    collect = runInNewContext("gc") as () => void;
    setFlagsFromString("--no-expose-gc");
  }
  collect();
};

/** The number of open files, sockets and pipes; `null` if the system does not list them. */
const openFiles = (): number | null => {
  try {
    // The listing itself opens one.
    return readdirSync("/proc/self/fd").length - 1;
  } catch {
    return null;
  }
};

/** `sockets`: those of callers; `linkSockets`: how many the links to key service and limiter have open. */
export const openGauges = (context: ApiContext, sockets: ReadonlySet<unknown>, linkSockets?: () => number) => {
  const lag = monitorEventLoopDelay({ resolution: LAG_RESOLUTION_MS });
  lag.enable();
  /** Each reading begins a new interval of the event loop's lag. */
  const read = (collectsFirst = false) => {
    const lagMs = Math.max(0, lag.percentile(99) / 1e6 - LAG_RESOLUTION_MS);
    lag.reset();
    if (collectsFirst) collectGarbage();
    const { rss, heapUsed } = process.memoryUsage();
    return {
      in_flight: context.shedder.inFlight(),
      in_flight_by_org: context.shedder.inFlightByOrganization(),
      sockets: sockets.size,
      event_loop_lag_ms_p99: Number.isFinite(lagMs) ? Math.round(lagMs * 100) / 100 : 0,
      rss_bytes: rss,
      heap_bytes: heapUsed,
      /** Timers that keep the process alive. */
      timers: process.getActiveResourcesInfo().filter((kind) => kind === "Timeout").length,
      open_files: openFiles(),
      unsettled: context.settlement.unsettled(),
      inference_running: context.inference.running(),
      inference_waiting: context.inference.waiting(),
      open_streams: context.openStreams.size,
      credential_conflicts: context.credentialConflicts,
      link_sockets: linkSockets?.(),
    };
  };
  return { read, close: () => lag.disable() };
};

export type Gauges = ReturnType<ReturnType<typeof openGauges>["read"]>;

export const apiControl = (context: ApiContext, gauges: (collectsFirst: boolean) => object): ControlPart => {
  const { deployment, failures, shedder, inference } = context;
  return {
    routes: [
      route("GET", "/counts", ({ query }) => context.counts.of(query.get("run"))),
      route("GET", "/gauges", ({ query }) => gauges(query.get("gc") === "true")),
    ],
    deployment: () => {
      const { globalInFlight, orgInFlight } = shedder.caps();
      const { slots, serviceFactor } = inference.capacity;
      return {
        sessions: deployment.sessions,
        failures_left: failures.left(),
        global_in_flight: globalInFlight,
        org_in_flight: orgInFlight,
        slots,
        service_factor: serviceFactor,
      };
    },
    change: (change) => {
      const { sessions, global_in_flight, org_in_flight, slots, service_factor, fail_next } = change;
      if (sessions !== undefined) deployment.sessions = sessions;
      if (global_in_flight !== undefined) shedder.setCaps({ globalInFlight: global_in_flight });
      if (org_in_flight !== undefined) shedder.setCaps({ orgInFlight: org_in_flight });
      inference.change({ slots, serviceFactor: service_factor });
      if (fail_next !== undefined) failures.order(fail_next);
      context.log.info(change, "the deployment was changed");
    },
  };
};
