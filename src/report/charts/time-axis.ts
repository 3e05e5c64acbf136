/** The horizontal axis of all charts over time, and the bands of faults through them. */
import { scaleLinear } from "d3-scale";
import { html, type Markup } from "../page/markup.ts";
import type { Course } from "./course.ts";
import { inFrame, percent, type Tick, WIDTH } from "./frame.ts";
import { areasTo, type Step, stepsTo } from "./step-path.ts";

const TICKS = 6;

/** From here on times are written in minutes. */
const MINUTES_FROM_S = 120;

export const timeTicks = ({ spanS }: Course): Tick[] => {
  const [unitS, unit] = spanS >= MINUTES_FROM_S ? [60, "min"] : [1, "s"];
  return scaleLinear([0, spanS / unitS], [0, 1])
    .ticks(TICKS)
    .filter((value) => value * unitS < spanS * 0.985)
    .map((value) => ({ at: (value * unitS) / spanS, text: value === 0 ? "0" : `${value} ${unit}` }));
};

export const xOf = (course: Course, s: number): number => Number(((s / course.spanS) * WIDTH).toFixed(1));

/** Bands of faults behind what is drawn: filled where the fault took effect, an empty dashed frame where it did not. */
export const bandShapes = (course: Course, height: number): Markup[] => [
  ...course.bands.map(({ fromS, toS, tookEffect, name }) => {
    const x = xOf(course, Math.max(0, fromS));
    const width = Math.max(1, xOf(course, Math.min(course.spanS, toS)) - x).toFixed(1);
    return html`<rect class="${tookEffect ? "band" : "band empty"}" x="${x}" width="${width}" height="${height}"><title>${name}</title></rect>`;
  }),
  ...course.marks.map(({ atS, name }) => {
    const x = xOf(course, atS);
    return html`<path class="mark" d="M${x} 0V${height}"><title>${name}</title></path>`;
  }),
];

/** Share of the axis that a name takes, so that two do not lie on each other. */
const NAME_ROOM = 0.25;

/** Names of bands and marks, above the drawing. */
export const bandLabels = (course: Course): Markup[] => {
  const names = [
    ...course.bands.map(({ fromS, name, tookEffect }) => ({
      s: fromS,
      text: `${name}${tookEffect ? "" : ", no effect"}`,
    })),
    ...course.marks.map(({ atS, name }) => ({ s: atS, text: name })),
  ].sort((a, b) => a.s - b.s);
  let free = -1;
  return names.flatMap(({ s, text }) => {
    const at = Math.max(0, s / course.spanS);
    if (at < free) return [];
    free = at + NAME_ROOM;
    const anchor = at > 1 - NAME_ROOM ? html` text-anchor="end"` : null;
    return [
      html`<text class="band-name" data-s="${s.toFixed(2)}" x="${percent(at)}" y="${inFrame(-6)}"${anchor}>${text}</text>`,
    ];
  });
};

/** A line of steps, one for each bin, to a pixel of height; it is broken where there is no value. */
export const stepPath = (course: Course, values: readonly (number | null)[], y: (value: number) => number): string =>
  stepsTo(
    stepsOf(course, values, (value) => Math.round(y(value))),
    xOf(course, values.length * course.binS),
  );

/** The same filled down to the bottom; finer, because of layers on each other a thin one must not vanish. */
export const areaPath = (
  course: Course,
  values: readonly (number | null)[],
  y: (value: number) => number,
  height: number,
): string => areasTo(stepsOf(course, values, y), xOf(course, values.length * course.binS), height);

const stepsOf = (course: Course, values: readonly (number | null)[], y: (value: number) => number): Step[] =>
  values.map((value, i) => ({ x: xOf(course, i * course.binS), y: value === null ? null : y(value) }));

/** When each row of a table begins, in seconds of the stage. */
export const rowTimes = ({ bins, binsInRow, binS }: Course): string[] =>
  Array.from({ length: Math.ceil(bins / binsInRow) }, (_, i) => {
    const s = i * binsInRow * binS;
    return `${Number(s.toFixed(s < 10 ? 2 : 1))} s`;
  });
