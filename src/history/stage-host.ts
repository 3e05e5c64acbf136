/** What generator and host did while a stage ran, kept with its facts so that a run can be judged again; `null`: not known. */
import type { Calibration } from "./run-document.ts";

/** Lag of the generator's event loop (k6 has none), and the number of cores that the generator used. */
type OfGenerator = "event_loop_lag_ms_p99" | "event_loop_lag_ms_max" | "cpu_share";
/** Shares of all cores' time taken by the hypervisor, and not idle; share of the time that our group was throttled. */
type SharesOfTime = "steal_share" | "busy_share" | "throttled_share";
/** On this host: connections that a full accept queue turned away, and SYNs sent again. */
type OfKernel = "listen_overflows" | "listen_drops" | "syn_retransmits";
/** The highest shares seen: of the ephemeral ports, and of the files that the generator may open. */
type SharesUsed = "ports_share" | "descriptors_share";

/**
 * Read by the process that generates the load, or beside it, from the stage's beginning to its end. `cpu_share_max`: the cores
 * that the generator can use at most, one for a loop of Node.
 */
export type HostFacts = { cpu_share_max: number } & Record<
  OfGenerator | SharesOfTime | OfKernel | SharesUsed,
  number | null
>;

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
  /** The generator's own complaints about its load, as sentences. */
  generator: string[];
  /** The checks that the stage's driver did not pass in the calibration before the run. */
  calibration: Calibration[];
};
