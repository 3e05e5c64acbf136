/** What generator and host did while a stage ran, kept with its facts so that a run can be judged again; `null`: not known. */
import type { Calibration } from "./run-document.ts";

/** Read by the process that generates the load, or beside it, from the stage's beginning to its end. */
export type HostFacts = {
  /** Of the generator's own event loop; `null` where it has none (k6). */
  event_loop_lag_ms_p99: number | null;
  event_loop_lag_ms_max: number | null;
  /** Cores that the generator used, without waiting, and how many it can use at most: one for a loop of Node. */
  cpu_share: number | null;
  cpu_share_max: number;
  /** Shares of all cores' time: given to others by the hypervisor, and not idle. */
  steal_share: number | null;
  busy_share: number | null;
  /** Share of the time for which our control group was held back, because it had used up what it may of the cores. */
  throttled_share: number | null;
  /** Connections that a full accept queue turned away, on this host meanwhile. */
  listen_overflows: number | null;
  listen_drops: number | null;
  syn_retransmits: number | null;
  /** Highest shares seen of the ephemeral ports, and of the files that the generator may have open. */
  ports_share: number | null;
  descriptors_share: number | null;
};

export type StageHost = {
  host: HostFacts | null;
  cores: number;
  /** Cores that the deployment used, where it was started here, and those that other programs used. */
  target_cores: number | null;
  other_cores: number | null;
  /** Calls of the stage, and how late they left against the schedule: `[share of calls, ms]`, the shares ascending. */
  calls: number;
  lag_ms: [number, number][];
  /** Calls sent per second over those offered, less 1: below 0 some were late or missing; `null` without a schedule. */
  rate_error: number | null;
  /** What the generator itself says against its load, as sentences. */
  generator: string[];
  /** The checks of the calibration before the run that its driver failed. */
  calibration: Calibration[];
};
