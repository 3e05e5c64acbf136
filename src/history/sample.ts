/** What deployment and machine showed while a stage ran: a line of `samples.ndjson`, for charts; no judge reads it. */
export type SampleName =
  /** Of all API replicas together, by their gauges. */
  | "in_flight"
  | "sockets"
  | "rss_bytes"
  /** The worst replica's, in milliseconds. */
  | "event_loop_lag_ms_p99"
  /** Cores that the processes of the load generator used, since the sample before. */
  | "generator_cores"
  /** Share of the machine's CPU time that the hypervisor kept, and that was not idle, since the sample before. */
  | "host_steal"
  | "host_busy";

export type Sample = {
  type: "sample";
  stage: string;
  /** On the run's clock, in microseconds. */
  at_us: number;
  values: Partial<Record<SampleName, number>>;
};
