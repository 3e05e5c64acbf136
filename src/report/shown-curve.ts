/** A curve of `curve.json`, checked because a file may be edited, and its rows for page, summary and terminal. */
import { sumOf } from "../history/statistics/statistics.ts";
import type { Curve, CurveLevel, Estimate, Pass, Quantiles } from "../shedding/curve.ts";
import { overlap } from "../shedding/knee.ts";
import { clip, oneLine } from "./escape.ts";
import { figure, milliseconds, perSecond, share } from "./figures.ts";
import { wrapped } from "./terminal.ts";

// Checks what was read from `curve.json`, `gate.json` or `capacity.json`: a file may be edited or cut off.

/** Bounds the numbers of a file: no measured value is as large. */
const LARGEST = 1e12;

export const fieldsOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : []);
const isMeasured = (value: unknown): value is number => typeof value === "number" && value >= 0 && value < LARGEST;

/**
 * The fields of `like`, each from `found` if its type fits. `null` in `like` is a number that may be missing, a list is one
 * of texts.
 */
export const shaped = <T>(found: unknown, like: T): T => {
  if (typeof like === "number" || like === null) return isMeasured(found) ? (found as T) : like;
  if (Array.isArray(like)) return listOf(found).filter((one) => typeof one === "string") as T;
  if (typeof like !== "object") return typeof found === typeof like ? (found as T) : like;
  const of = fieldsOf(found);
  return Object.fromEntries(Object.entries(like).map(([name, value]) => [name, shaped(of[name], value)])) as T;
};

const PASSES: readonly Pass[] = ["up", "down", "after"];
/** Bounds the work of Erlang's formula, which takes one step for each slot. */
const SLOTS_MOST = 100_000;
/** JSON has no infinity: an unknown bound is `null` in a file. */
const ESTIMATE: Estimate = { value: 0, low: 0, high: Number.POSITIVE_INFINITY };
const QUANTILES: Quantiles = { p50: null, p99: null };
const LEVEL: Omit<CurveLevel, "pass" | "shed" | "failed"> = {
  ...{ ratePerS: 0, judgedS: 0, offered: 0, good: 0, late: 0, aborted: 0, retries: 0, events: 0, wastedEvents: 0 },
  ...{ goodputPerS: ESTIMATE, shedShare: { ...ESTIMATE, high: 1 }, shedDispersion: null, lagMs: null },
  ...{ stayMs: QUANTILES, stayMedianMs: null, firstEventMs: QUANTILES, refusalMs: QUANTILES },
  ...{ room: null, shedsAt: null, admitsAt: null },
};
const CURVE = {
  ...{ stage: "?", serviceMs: 0, warmUp: { seconds: 0, isCut: false }, kneeBy: "" },
  objective: { firstEventMs: 0, stayMs: 0, from: "calm" as const },
};

const countsOf = (value: unknown): Record<string, number> =>
  Object.fromEntries(Object.entries(fieldsOf(value)).map(([outcome, n]) => [outcome, shaped(n, 0)]));

const estimateOf = (value: unknown) => (isMeasured(fieldsOf(value).value) ? shaped(value, ESTIMATE) : null);

const levelOf = (value: unknown): CurveLevel[] => {
  const { pass: way, shed, failed } = fieldsOf(value);
  const pass = PASSES.find((one) => one === way);
  const level = shaped(value, LEVEL);
  return pass === undefined || level.ratePerS === 0
    ? []
    : [{ ...level, pass, shed: countsOf(shed), failed: countsOf(failed) }];
};

/** Reads a curve; `null` if it has no level that can be drawn. */
export const shownCurve = (found: unknown): Curve | null => {
  const of = fieldsOf(found);
  const levels = listOf(of.levels).flatMap(levelOf);
  if (levels.length === 0) return null;
  const curve = shaped(found, CURVE);
  const { slots, replicas } = shaped(of.closedForm, { slots: 0, replicas: 0 });
  const isForm = slots >= 1 && replicas >= 1 && slots * replicas <= SLOTS_MOST && curve.serviceMs > 0;
  const knee = fieldsOf(of.knee);
  const before = estimateOf(knee.before);
  return {
    ...curve,
    levels,
    knee: { before, after: estimateOf(knee.after), overall: estimateOf(knee.overall) ?? before },
    kneeBy: oneLine(curve.kneeBy) || null,
    closedForm: isForm ? { slots, replicas } : null,
    notPlayed: listOf(of.notPlayed).filter(isMeasured),
    // No report shows these.
    ...{ models: [], organizations: null, patient: null },
  };
};

/** A rate as a multiple of the knee: `1.5`; `–` without a knee. */
export const timesKnee = ({ knee: { overall } }: Curve, ratePerS: number): string =>
  overall === null || overall.value <= 0
    ? "–"
    : (ratePerS / overall.value).toPrecision(ratePerS < overall.value ? 2 : 3);

const WAY = ["good/s", "±", "shed", "other", "p99"] as const;

/** Good calls a second, half the width of their interval, the shares shed and ended otherwise, and the p99. */
const cellsOf = (level: CurveLevel | undefined): string[] => {
  if (level === undefined) return WAY.map(() => "");
  const { goodputPerS, shed, late, failed, aborted, offered, stayMs } = level;
  const { value, low, high } = goodputPerS;
  const all = (counts: Readonly<Record<string, number>>): number => sumOf(Object.values(counts));
  return [
    figure(value),
    Number.isFinite(high) ? figure(Number(Math.max(high - value, value - low).toPrecision(2))) : "–",
    share(all(shed), offered),
    share(late + all(failed) + aborted, offered),
    stayMs.p99 === null ? "–" : milliseconds(stayMs.p99),
  ];
};

const isNear = (one: CurveLevel, other: CurveLevel): boolean => Math.abs(one.ratePerS / other.ratePerS - 1) < 1e-6;

/** A row for each rate, with the way up and the way down side by side; for Markdown and the terminal. */
export const curveTable = (curve: Curve): { heads: string[]; rows: string[][] } => {
  const of = (pass: Pass): CurveLevel[] => curve.levels.filter((level) => level.pass === pass);
  const [up, down] = [of("up"), of("down")];
  const alone = down.filter((level) => !up.some((one) => isNear(one, level)));
  const rows = [...up, ...alone]
    .sort((a, b) => a.ratePerS - b.ratePerS)
    .map((level) => [
      ...[timesKnee(curve, level.ratePerS), figure(level.ratePerS)],
      ...[up, down].flatMap((way) => cellsOf(way.find((one) => isNear(one, level)))),
    ]);
  return { heads: ["× knee", "offered/s", ...["up", "down"].flatMap((way) => WAY.map((of) => `${way}: ${of}`))], rows };
};

export const kneeSentences = (curve: Curve): string[] => {
  const { levels, notPlayed, kneeBy, closedForm } = curve;
  const { before, after, overall } = curve.knee;
  const isSame = before !== null && after !== null && overlap(before, after);
  const rated = ({ value, low, high }: Estimate): string =>
    `${perSecond(value)}${Number.isFinite(high) ? ` (${perSecond(low)} to ${perSecond(high)})` : ""}`;
  return [
    overall === null
      ? `No knee up to ${perSecond(Math.max(...levels.map(({ ratePerS }) => ratePerS)))}.`
      : `The knee is at ${rated(overall)}${kneeBy === null ? "" : `, ended by ${kneeBy}`}.`,
    ...(after === null || isSame ? [] : [`After the overload it is at ${rated(after)}.`]),
    ...(overall === null || closedForm !== null
      ? []
      : ["No fixed slots are stated: a limit set too low looks like a smaller deployment."]),
    ...(notPlayed.length === 0 ? [] : [`Not played: ${notPlayed.map(figure).join(", ")} times the knee.`]),
  ];
};

export const curveSentences = (curve: Curve): string[] => [
  ...kneeSentences(curve),
  ...(curve.levels.some((level) => cellsOf(level).includes("–")) ? ["–: a level had too few calls to tell."] : []),
  ...curve.levels
    .filter(({ pass }) => pass === "after")
    .map((level) => {
      const [good, half, shed, other, p99] = cellsOf(level);
      return `Once more at ${perSecond(level.ratePerS)}, after calm: ${good} ± ${half} good/s, ${shed} shed, ${other} other, p99 ${p99}.`;
    }),
];

const WIDTHS = [6, 8, 7, 6, 7, 7, 6, 7, 6, 7, 7, 6] as const;

/** The curve for a terminal of 80 columns: cells are aligned right, and cut if wider than their column. */
export const curveLines = (found: unknown): string[] => {
  const curve = shownCurve(found);
  if (curve === null) return [];
  const row = (cells: readonly string[]): string =>
    cells
      .map((text, i) => clip(text, (WIDTHS[i] as number) - 1).padStart(WIDTHS[i] as number))
      .join("")
      .trimEnd();
  // There is no room for the space before a unit.
  const rows = curveTable(curve).rows.map((cells) => row(cells.map((text) => text.replace(" ", ""))));
  return [
    `${" ".repeat(15)}${"on the way up".padEnd(33)}on the way down`,
    row(["×knee", "calls/s", ...WAY, ...WAY]),
    ...rows,
    ...curveSentences(curve).flatMap((sentence) => wrapped(sentence)),
  ];
};

export const objectiveText = ({ objective, warmUp }: Curve): string =>
  `Good is a call that ends whole within ${milliseconds(objective.stayMs)} of its due moment, its first event within ${milliseconds(objective.firstEventMs)} (${objective.from === "stated" ? "as the target file states" : "read from the calmest level"}). The first ${milliseconds(warmUp.seconds * 1000)} of a level are left out${warmUp.isCut ? ", which is less than calls take to settle" : ""}.`;
