/** One stage as charts draw it: without the empty time before and after, in few enough bins, with faults as bands. */
import { busyPartOf, coarserSeries, type SeriesEvent, type StageSeries } from "../../history/series.ts";
import { sumOf } from "../../history/statistics/statistics.ts";

/** The width of a drawing in its own units; it is stretched to the width of the page. */
export const WIDTH = 640;

/** A bin should hold about this many calls, so that a line is not all noise, but at least `BINS_LEAST` remain. */
const CALLS_A_BIN = 20;
const BINS_LEAST = 48;

/** The most columns of a chart and rows of a table; of a folded stage `least` omits the generator's chart. */
export type Detail = { binsMost: number; rowsMost: number; folded: "all" | "main" | "least" };

const bandsOf = (events: readonly SeriesEvent[], fromMs: number, spanS: number) => {
  const bands: { name: string; fromS: number; toS: number; tookEffect: boolean }[] = [];
  const open = new Map<string, (typeof bands)[number]>();
  for (const { at_ms, name, fault } of events) {
    if (fault === undefined) continue;
    const key = `${fault.experiment} ${fault.link} ${fault.fault}`;
    const atS = (at_ms - fromMs) / 1000;
    // A fault may act as soon as it was asked for.
    if (name === "injecting" || (name === "injected" && !open.has(key))) {
      const band = { name: fault.experiment, fromS: atS, toS: spanS, tookEffect: false };
      open.set(key, band);
      bands.push(band);
    }
    const band = open.get(key);
    if (name === "injected" && band !== undefined) band.tookEffect = fault.took_effect === true;
    if (name === "healed" && band !== undefined) {
      band.toS = atS;
      open.delete(key);
    }
  }
  return bands;
};

/**
 * A stage as its charts draw it: `series` has bins wide enough to read, `fine` those of `series.json`; `bands` are faults,
 * `marks` other events; a row of the table stands for `binsInRow` bins.
 */
export const chartSeriesOf = (whole: StageSeries, { binsMost, rowsMost }: Omit<Detail, "folded">) => {
  const fine = busyPartOf(whole);
  const readable = Math.max(BINS_LEAST, Math.round(sumOf(fine.offered) / CALLS_A_BIN));
  const series = coarserSeries(fine, Math.min(binsMost, readable));
  const bins = series.offered.length;
  const binS = series.bin_ms / 1000;
  const spanS = bins * binS;
  const marks = series.events
    .filter(({ fault }) => fault === undefined)
    .map(({ name, at_ms }) => ({ name, atS: (at_ms - series.from_ms) / 1000 }))
    .filter(({ atS }) => atS >= 0 && atS <= spanS);
  const bands = bandsOf(series.events, series.from_ms, spanS);
  return { series, fine, bins, binS, spanS, bands, marks, binsInRow: Math.max(1, Math.ceil(bins / rowsMost)) };
};

export type ChartSeries = ReturnType<typeof chartSeriesOf>;
/** A value for each bin; `null` if there is none. */
export type Values = readonly (number | null)[];

export const xOf = (stage: ChartSeries, s: number): number => Number(((s / stage.spanS) * WIDTH).toFixed(1));

// Paths are short, to a tenth of a unit and with relative steps, because a page holds thousands of them.

/** A step reaches from `x` to the next step; `y` is `null` for a gap. */
export type Step = { x: number; y: number | null };

const tenth = (value: number): number => Math.round(value * 10) / 10;

const short = (value: number): string => String(tenth(value)).replace(/^(-?)0\./, "$1.");

/** A relative move along one axis; empty if there is none. */
const moved = (direction: "h" | "v", from: number, to: number): string => {
  const by = tenth(tenth(to) - tenth(from));
  return by === 0 ? "" : `${direction}${short(by)}`;
};

const at = (x: number, y: number): string => {
  const second = short(y);
  return `M${short(x)}${second.startsWith("-") ? "" : " "}${second}`;
};

/** A straight line from each point to the next. */
export const pathThrough = (points: readonly (readonly [x: number, y: number])[]): string =>
  points.map(([x, y], i) => (i === 0 ? at(x, y) : `L${at(x, y).slice(1)}`)).join("");

/** A line along the steps up to `endX`, broken at gaps. */
export const stepsTo = (steps: readonly Step[], endX: number): string => {
  const distinct = steps.filter(({ y }, i) => i === 0 || y !== steps[i - 1]?.y);
  const pieces = distinct.map(({ x, y }, i) => {
    if (y === null) return "";
    const before = distinct[i - 1]?.y ?? null;
    return `${before === null ? at(x, y) : moved("v", before, y)}${moved("h", x, distinct[i + 1]?.x ?? endX)}`;
  });
  return pieces.join("");
};

/** The area under the steps down to `floorY`, each stretch between gaps by itself. */
export const areasTo = (steps: readonly Step[], endX: number, floorY: number): string => {
  const stretches = steps.map(({ x, y }, from) => {
    if (y === null || (steps[from - 1]?.y ?? null) !== null) return "";
    const length = steps.slice(from).findIndex((step) => step.y === null);
    const stretch = length === -1 ? steps.slice(from) : steps.slice(from, from + length);
    return `${stepsTo(stretch, steps[from + stretch.length]?.x ?? endX)}V${short(floorY)}H${short(x)}z`;
  });
  return stretches.join("");
};

const stepsOf = (stage: ChartSeries, values: Values, y: (value: number) => number): readonly [Step[], endX: number] => [
  values.map((value, i) => ({ x: xOf(stage, i * stage.binS), y: value === null ? null : y(value) })),
  xOf(stage, values.length * stage.binS),
];

/** A line of steps, one for each bin, in whole units of height; broken where there is no value. */
export const stepPath = (stage: ChartSeries, values: Values, y: (value: number) => number): string =>
  stepsTo(...stepsOf(stage, values, (value) => Math.round(y(value))));

/** The area under the steps; finer than whole units, so that a thin layer does not vanish. */
export const areaPath = (stage: ChartSeries, values: Values, y: (value: number) => number, height: number): string =>
  areasTo(...stepsOf(stage, values, y), height);

/** When each row of a table begins, in seconds of the stage. */
export const rowTimes = ({ bins, binsInRow, binS }: ChartSeries): string[] =>
  Array.from({ length: Math.ceil(bins / binsInRow) }, (_, i) => {
    const s = i * binsInRow * binS;
    return `${Number(s.toFixed(s < 10 ? 2 : 1))} s`;
  });
