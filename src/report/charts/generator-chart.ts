/** The strip beneath: how late the generator itself was, and what it and the host did meanwhile. */
import { scaleLinear } from "d3-scale";
import { largestOf, mergedOf } from "../../history/coarser-series.ts";
import { mergeSparse, quantileMs } from "../../history/statistics/log-buckets.ts";
import { counted, figure } from "../figures.ts";
import { html } from "../page/markup.ts";
import { milliseconds, seconds } from "./chart-figures.ts";
import type { Course } from "./course.ts";
import type { Chart } from "./frame.ts";
import { lineSwatch } from "./swatches.ts";
import { rowTimes, stepPath, timeTicks } from "./time-axis.ts";

const HEIGHT = 56;
/** From here on a bin's times are the generator's as well as the target's. */
const LATE_MS = 20;

const lagOf = ({ series }: Course): (number | null)[] => series.lag.map((bin) => quantileMs(bin, 1));

/** Bins in which more than a tenth of the calls left later than that. */
export const doubtedBins = ({ series }: Course): boolean[] =>
  series.lag.map((bin) => (quantileMs(bin, 0.9) ?? 0) > LATE_MS);

const keyOf = (shape: "line p50" | "line p99" | "line lag", text: string) => ({ swatch: lineSwatch(shape), text });

export const lagChart = (course: Course, id: string): Chart => {
  const { series, binS, binsInRow } = course;
  const lag = lagOf(course);
  const all = mergeSparse(series.lag);
  const most = Math.max(0.1, ...lag.map((ms) => ms ?? 0));
  const y = scaleLinear([0, most], [HEIGHT, 0]).nice(2);
  const top = y.domain()[1] as number;
  const late = doubtedBins(course).filter((isLate) => isLate).length;
  const p99 = milliseconds(quantileMs(all, 0.99) ?? 0);
  const finding =
    late === 0
      ? `In time: 99 % of the calls left within ${p99} of their moment, the latest ${milliseconds(most)} after it.`
      : `Late: in ${late} of ${counted(lag.length, "bin")} more than a tenth of the calls left over ${milliseconds(LATE_MS)} after their moment, ${milliseconds(most)} at worst. Times there are the generator's too, and are drawn on grey.`;
  const rows = mergedOf(series.lag, binsInRow);
  const cell = (ms: number | null): string | null => (ms === null ? null : milliseconds(ms));
  return {
    id,
    finding,
    height: HEIGHT,
    unit: "",
    isOverTime: true,
    title: "The generator.",
    description: `How late the latest call of each bin left, over ${seconds(course.spanS)}.`,
    across: timeTicks(course),
    up: y.ticks(2).map((ms) => ({ at: 1 - ms / top, text: ms === 0 ? "0" : milliseconds(ms) })),
    drawn: html`<path class="line lag" d="${stepPath(course, lag, y)}"/>`,
    keys: [keyOf("line lag", "latest call of a bin")],
    table: {
      head: ["from", "p50", "p99", "latest"],
      rows: rowTimes(course).map((time, i) => [time, ...[0.5, 0.99, 1].map((p) => cell(quantileMs(rows[i] ?? [], p)))]),
      rowS: binS * binsInRow,
    },
  };
};

const CPU = [
  ["generator_cores", "line p50", "generator, in cores"],
  ["host_busy", "line p99", "machine busy, of 1"],
  ["host_steal", "line lag", "taken by the hypervisor, of 1"],
] as const;

/** `null` where nothing of it was sampled. */
export const cpuChart = (course: Course, id: string): Chart | null => {
  const { series, binS, binsInRow } = course;
  const lines = CPU.flatMap(([name, shape, text]) => {
    const values = series.generator[name];
    return values?.some((value) => value !== null) === true ? [{ name, shape, text, values }] : [];
  });
  if (lines.length === 0) return null;
  const most = (values: readonly (number | null)[]): number => Math.max(...values.map((value) => value ?? 0));
  const y = scaleLinear([0, Math.max(1, ...lines.map(({ values }) => most(values)))], [HEIGHT, 0]).nice(2);
  const top = y.domain()[1] as number;
  // A sample holds until the next one.
  const held = (values: readonly (number | null)[]): (number | null)[] => {
    let last: number | null = null;
    return values.map((value) => {
      last = value ?? last;
      return last;
    });
  };
  const of = (name: string): number | null => {
    const found = lines.find((one) => one.name === name);
    return found === undefined ? null : most(found.values);
  };
  const [cores, steal, busy] = ["generator_cores", "host_steal", "host_busy"].map(of);
  const parts = [
    ...(cores === null || cores === undefined ? [] : [`The generator used at most ${figure(cores)} cores`]),
    ...(busy === null || busy === undefined ? [] : [`the machine was at most ${Math.round(busy * 100)} % busy`]),
    ...(steal === null || steal === undefined
      ? []
      : [steal < 0.01 ? "the hypervisor took nothing" : `the hypervisor took at most ${Math.round(steal * 100)} %`]),
  ];
  return {
    id,
    height: HEIGHT,
    unit: "",
    isOverTime: true,
    title: "CPU.",
    finding: `${parts.join(", ")}.`,
    description: `CPU of the generator's processes and of the machine over ${seconds(course.spanS)}, read twice a second.`,
    across: timeTicks(course),
    up: y.ticks(2).map((value) => ({ at: 1 - value / top, text: figure(value) })),
    drawn: html`${lines.map(({ values, shape }) => html`<path class="${shape}" d="${stepPath(course, held(values), y)}"/>`)}`,
    keys: lines.map(({ shape, text }) => keyOf(shape, text)),
    table: {
      head: ["from", ...lines.map(({ text }) => text)],
      rows: rowTimes(course).map((time, i) => [
        time,
        ...lines.map(({ values }) => largestOf(values, binsInRow)[i] ?? null),
      ]),
      rowS: binS * binsInRow,
    },
  };
};
