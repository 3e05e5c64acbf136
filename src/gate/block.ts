/**
 * A short block of calls as the three numbers that the gate compares. Blocks of base and head alternate, so what the machine
 * does meanwhile befalls both; a number of one block means little, the ratio within a pair a lot.
 */
import { type CallLine, classOf } from "../history/line.ts";
import { quantile } from "../history/statistics.ts";

export const GATE_MEASUREMENTS = ["latency_ms_p50", "latency_ms_p99", "goodput"] as const;
export type GateMeasurement = (typeof GATE_MEASUREMENTS)[number];

/** `null` where the block has nothing to measure it by. Milliseconds, and calls per second. */
export type BlockValues = Record<GateMeasurement, number | null>;

export type BlockPlan = {
  /** Part below the capacity, in which latency is measured; from inclusive, to exclusive, microseconds of the run. */
  steady: { fromUs: number; toUs: number };
  /** Part above the capacity, in which goodput is measured. */
  past: { fromUs: number; toUs: number };
  /** An answer counts as good up to here. */
  sloMs: number;
};

const wholeMs = (line: CallLine): number | null => {
  const whole = line.ended === undefined || line.ended === "done";
  if (classOf(line.outcome) !== "answered" || !whole || line.aborted === true) return null;
  return (line.done_us - line.intended_us) / 1000;
};

/** Calls belong to a part by the moment they should have left. */
const within = (lines: readonly CallLine[], { fromUs, toUs }: BlockPlan["steady"]): number[] =>
  lines.flatMap((line) => (line.intended_us >= fromUs && line.intended_us < toUs ? (wholeMs(line) ?? []) : []));

export const measureBlock = (lines: readonly CallLine[], { steady, past, sloMs }: BlockPlan): BlockValues => {
  const latencies = within(lines, steady).sort((a, b) => a - b);
  const pastSeconds = (past.toUs - past.fromUs) / 1e6;
  return {
    latency_ms_p50: quantile(latencies, 0.5),
    latency_ms_p99: quantile(latencies, 0.99),
    goodput: pastSeconds > 0 ? within(lines, past).filter((ms) => ms <= sloMs).length / pastSeconds : null,
  };
};
