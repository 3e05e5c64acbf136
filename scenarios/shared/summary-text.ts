/** Summarizes a scenario that ran without the runner, as a short text. */
import { STREAM_ENDS } from "../../src/contract/streams.ts";
import type { HandOver, PrintedSpent } from "../../src/workload/handover.ts";
import type { Story } from "../../src/workload/story.ts";
import { COUNTED, METRICS } from "./expectations.ts";

/** The part of k6's summary that is read here. */
export type SummaryData = {
  metrics: Record<string, { values: Record<string, number>; thresholds?: Record<string, { ok: boolean }> } | undefined>;
  state?: { testRunDurationMs?: number };
};

type Ran = { story: Story; target: string; notes: readonly string[]; handed: HandOver };

const ms = (value: number | undefined): string => (value === undefined ? "-" : `${value.toFixed(1)} ms`);

export const summaryText = (
  { story, target, notes, handed }: Ran,
  { metrics, state }: SummaryData,
  { spent, stopped, unsent }: Pick<PrintedSpent, "spent" | "stopped" | "unsent">,
): string => {
  const { requests, map_loads, analyses, stream_seconds } = spent;
  const count = (name: string): number => metrics[name]?.values.count ?? 0;
  const table = (metric: string, tag: string, values: readonly string[]): string[] =>
    values.flatMap((value) => {
      const n = count(`${metric}{${tag}:${value}}`);
      return n === 0 ? [] : [`    ${String(n).padStart(7)}  ${value}`];
    });
  const trend = (name: string, what: string): string[] => {
    const values = metrics[name]?.values;
    if (values === undefined || (values.count ?? 0) === 0) return [];
    return [`  ${what}: median ${ms(values.med)}, p99 ${ms(values["p(99)"])}, most ${ms(values.max)}`];
  };
  const streams = table(METRICS.streams, "ended", STREAM_ENDS);
  const crossed = Object.entries(metrics).flatMap(([name, metric]) =>
    Object.entries(metric?.thresholds ?? {}).flatMap(([rule, { ok }]) => (ok ? [] : [`    ${name}: expected ${rule}`])),
  );
  const passes = crossed.length === 0 && stopped === null;
  const lines = [
    `${story.name} on ${target}, seed ${handed.seed}: ${story.purpose}`,
    ...notes.map((note) => `  note: ${note}`),
    `  ${count(METRICS.calls)} calls in ${((state?.testRunDurationMs ?? 0) / 1000).toFixed(1)} s by outcome`,
    ...table(METRICS.calls, "outcome", COUNTED),
    ...(streams.length === 0 ? [] : ["  admitted streams by their end", ...streams]),
    ...trend(METRICS.firstEvent, "time to first event, from when the call should have left"),
    ...trend(METRICS.latency, "latency, from when the call should have left"),
    ...trend(METRICS.lag, "how late k6 itself was"),
    `  spent: ${requests} requests, ${map_loads} map loads, ${analyses} analyses, ${stream_seconds.toFixed(1)} stream seconds`,
    ...(stopped === null ? [] : [`  stopped: ${stopped.reason}; ${unsent} calls were not sent`]),
    ...(crossed.length === 0 ? [] : ["  thresholds crossed", ...crossed]),
    `  verdict by thresholds: ${passes ? "pass" : crossed.length > 0 ? "fail" : "stopped early"}`,
  ];
  return `\n${lines.join("\n")}\n\n`;
};
