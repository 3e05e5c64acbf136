/** How many calls were under way: as the callers saw it, as the deployment's own gauges reported it, and the cap. */
import { scaleLinear } from "d3-scale";
import { line } from "d3-shape";
import { largestOf } from "../../history/coarser-series.ts";
import { count } from "../figures.ts";
import { html } from "../page/markup.ts";
import { seconds } from "./chart-figures.ts";
import type { Course } from "./course.ts";
import { type Chart, inFrame, WIDTH } from "./frame.ts";
import { lineSwatch } from "./swatches.ts";
import { bandLabels, bandShapes, rowTimes, stepPath, timeTicks, xOf } from "./time-axis.ts";

const HEIGHT = 110;

/** At the end of each bin: what had started less what had ended. */
export const inFlightByCallers = ({ series }: Course): number[] => {
  let open = 0;
  return series.started.map((started, i) => {
    open += started - (series.ended[i] ?? 0);
    return Math.max(0, open);
  });
};

const findingOf = (callers: readonly number[], gauges: readonly (number | null)[], cap: number | null): string => {
  const most = Math.max(...callers);
  const seen = gauges.filter((value) => value !== null);
  const parts = [`At most ${count(most)} calls were under way by the callers`];
  if (seen.length > 0) parts.push(`${count(Math.max(...seen))} by the gauges`);
  const at = gauges.findLastIndex((value) => value !== null);
  const held = gauges[at] ?? 0;
  // A reading stands somewhere in its bin, the callers' number at its end.
  const isIdle = callers[at] === 0 && callers[at - 1] === 0;
  const end = held > 0 && isIdle ? ` At the last reading the gauges held ${count(held)}, the callers none.` : "";
  if (cap === null) return `${parts.join(", ")}.${end}`;
  const full = seen.filter((value) => value >= cap).length;
  const atCap =
    seen.length === 0
      ? ""
      : full === 0
        ? ", and none of the readings was at the cap"
        : `; ${full} of ${seen.length} readings were at the cap`;
  return `${parts.join(", ")}; the cap is ${count(cap)}${atCap}.${end}`;
};

export const inFlightChart = (course: Course, id: string): Chart => {
  const { series, binS, binsInRow, spanS } = course;
  const callers = inFlightByCallers(course);
  const gauges = series.gauges.in_flight ?? [];
  const cap = series.in_flight_cap;
  const seen = gauges.flatMap((value, i) => (value === null ? [] : [{ s: (i + 0.5) * binS, value }]));
  const data = Math.max(1, ...callers, ...seen.map(({ value }) => value));
  // A cap far above everything would flatten the chart.
  const isCapShown = cap !== null && cap <= 4 * data;
  const y = scaleLinear([0, isCapShown ? Math.max(cap * 1.05, data) : data], [HEIGHT, 0]).nice(3);
  const top = y.domain()[1] as number;
  const gaugeLine =
    line<{ s: number; value: number }>()
      .x(({ s }) => xOf(course, s))
      .y(({ value }) => y(value))
      .digits(0)(seen) ?? "";
  const key = (shape: "line callers" | "line gauges", text: string) => ({ swatch: lineSwatch(shape), text });
  const capY = isCapShown ? y(cap) : 0;
  const tableGauges = largestOf(gauges, binsInRow);
  return {
    id,
    height: HEIGHT,
    unit: "calls",
    isOverTime: true,
    title: "In flight.",
    finding: findingOf(callers, gauges, cap),
    description: `Calls under way over ${seconds(spanS)}, as seen by the callers${seen.length === 0 ? "; the deployment shows no gauges" : " and by the deployment's gauges, read twice a second"}.`,
    across: timeTicks(course),
    up: y
      .ticks(3)
      .filter(Number.isInteger)
      .map((value) => ({ at: 1 - value / top, text: count(value) })),
    drawn: html`${bandShapes(course, HEIGHT)}${isCapShown ? html`<path class="limit" d="M0 ${capY.toFixed(1)}H${WIDTH}"/>` : null}<path class="line callers" d="${stepPath(course, callers, y)}"/>${gaugeLine === "" ? null : html`<path class="line gauges" d="${gaugeLine}"/>`}`,
    labels: html`${bandLabels(course)}${isCapShown ? html`<text class="limit-name" x="100%" y="${inFrame(capY - 4)}" text-anchor="end">cap ${count(cap)}</text>` : null}`,
    keys: [key("line callers", "by the callers"), ...(seen.length === 0 ? [] : [key("line gauges", "by the gauges")])],
    table: {
      head: ["from", "by the callers", ...(seen.length === 0 ? [] : ["by the gauges"])],
      rows: rowTimes(course).map((time, i) => [
        time,
        largestOf(callers, binsInRow)[i] ?? null,
        ...(seen.length === 0 ? [] : [tableGauges[i] ?? null]),
      ]),
      rowS: binS * binsInRow,
    },
  };
};
