/** What deployment and machine showed at one moment of a stage: a line of `samples.ndjson`, for charts only. */
export type SampleName =
  /** Sums over all API replicas, by their gauges. */
  | "in_flight"
  | "sockets"
  | "rss_bytes"
  /** The lag of the worst replica, in milliseconds. */
  | "event_loop_lag_ms_p99"
  /** Cores that the processes of the load generator used, since the sample before. */
  | "generator_cores"
  /** Shares of the machine's CPU time since the sample before: taken by the hypervisor, and not idle. */
  | "host_steal"
  | "host_busy";

export type Sample = {
  type: "sample";
  stage: string;
  /** On the run's clock, in microseconds. */
  at_us: number;
  values: Partial<Record<SampleName, number>>;
};
