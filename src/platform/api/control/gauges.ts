/** What a replica reports about itself at this moment (`GET /gauges`, interface.md section 4). */
import { type ELDHistogram, monitorEventLoopDelay } from "node:perf_hooks";
import type { ApiContext } from "../context.ts";
import { type ProcessGauges, readProcessGauges } from "./process-gauges.ts";

export type Gauges = ProcessGauges & {
  in_flight: number;
  in_flight_by_org: Record<string, number>;
  sockets: number;
  /** HTTP connections to the key service and the limiter. */
  link_sockets?: number;
  event_loop_lag_ms_p99: number;
  /** Refunds not confirmed yet. */
  unsettled: number;
  inference_running: number;
  inference_waiting: number;
  open_streams: number;
  credential_conflicts: number;
};

const LAG_RESOLUTION_MS = 10;

/** Watches the event loop until it is disabled. */
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
