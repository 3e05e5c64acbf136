/** Nights for a terminal of 80 columns and for programs: what changed first, then every figure. */
import { someOf } from "../contract/lists.ts";
import { median } from "../history/statistics/statistics.ts";
import { type Change, deployedOf, type Figure, gateCommand, NIGHTS_LEAST, type Trends } from "../trends/changes.ts";
import type { Night } from "../trends/nights.ts";
import { clip, oneLine } from "./escape.ts";
import { counted, figure } from "./figures.ts";
import { wrapped } from "./terminal.ts";

export const dayOf = ({ started_at: at }: Night): string => at.slice(0, 10);

/** `+12 %` for a value that rose by so much, whichever direction is worse. */
export const changeText = ({ before, after }: Change): string =>
  before === 0
    ? "from 0"
    : `${after >= before ? "+" : ""}${figure(Number(((after / before - 1) * 100).toPrecision(2)))} %`;

/** What lies between the last night before and the first night after: days, and commits where they are known. */
export const betweenText = ({ from, to }: Change): string => {
  const [base, head] = [deployedOf(from), deployedOf(to)];
  const days = `between ${dayOf(from)} and ${dayOf(to)}`;
  if (base === null || head === null) return `${days}; \`trends add --commit\` states what was deployed`;
  if (base === head) return `${days}, both on ${oneLine(base)}: the machine changed, not the commit`;
  const isOtherJudge = !to.target.embedded && from.commit !== to.commit;
  const other = isOtherJudge ? `; Floodgate changed as well, ${from.commit}…${to.commit}` : "";
  return `${days}, ${oneLine(base)}…${oneLine(head)}${other}`;
};

export type Found = { figure: Figure; change: Change };

/** Changes by the nights between which they are, the newest first; within those the worst first. */
export const changesByNight = ({ figures }: Trends): Found[][] => {
  const all = figures.flatMap((one) => one.changes.map((change) => ({ figure: one, change })));
  const sorted = all.toSorted((a, b) => b.change.worseBy - a.change.worseBy);
  const groups = [...Map.groupBy(sorted, ({ change }) => `${change.to.started_at} ${change.from.id}`)];
  return groups.sort(([a], [b]) => (a < b ? 1 : -1)).map(([, found]) => found);
};

export const comparedNights = ({ nights }: Trends): number => nights.filter(({ whyNot }) => whyNot === null).length;

/** Says how many nights there are, which of them are not compared, and whether those that are left are too few. */
export const nightsText = (trends: Trends): string => {
  const { nights } = trends;
  const left = Map.groupBy(
    nights.filter(({ whyNot }) => whyNot !== null),
    ({ whyNot }) => whyNot,
  );
  const why = [...left].map(([word, { length }]) => `${length} ${word}`);
  const few = comparedNights(trends) < NIGHTS_LEAST ? ` Too few: a change needs ${NIGHTS_LEAST} to be seen.` : "";
  const span = `${dayOf(nights[0] as Night)} to ${dayOf(nights.at(-1) as Night)}`;
  const out = why.length === 0 ? "" : `; left out: ${why.join(", ")}`;
  return `${counted(nights.length, "night")} from ${span}, ${comparedNights(trends)} compared${out}.${few}`;
};

const OTHERS_NAMED = 4;
const NAME = 47;
const row = (name: string, ...cells: readonly string[]): string =>
  `${clip(name, NAME).padEnd(NAME)}${cells.map((cell) => cell.padStart(11)).join("")}`.trimEnd();

const comparedValues = ({ values }: Figure): number[] =>
  values.filter(({ isCompared }) => isCompared).map(({ value }) => value);

/** Whether a figure without a change has enough nights to say so. */
export const isSteady = (one: Figure): boolean => comparedValues(one).length >= NIGHTS_LEAST;

const changeLines = (found: readonly Found[]): string[] => {
  const [{ change }] = found as [Found];
  const command = gateCommand(change);
  return [
    ...wrapped(`${betweenText(change).replace("between", "Between")}:`),
    ...found.map(({ figure: { name }, change: one }) =>
      row(
        `  ${one.worseBy > 1 ? "WORSE" : "better"} ${oneLine(name)}`,
        figure(one.before),
        figure(one.after),
        changeText(one),
      ),
    ),
    ...(command === null ? [] : ["  The gate decides, with a target file of each commit:", `  ${command}`]),
    "",
  ];
};

export const trendsLines = (trends: Trends): string[] => {
  const { group, others, figures } = trends;
  const changes = changesByNight(trends);
  const steady = figures.filter((one) => one.changes.length === 0);
  const isDue = comparedNights(trends) >= NIGHTS_LEAST;
  return [
    ...wrapped(`${oneLine(group)}: ${nightsText(trends)}`),
    ...(others.length === 0
      ? []
      : wrapped(`Nights of another kind are not compared: ${someOf(others, OTHERS_NAMED)}.`)),
    "",
    ...(changes.length > 0
      ? [row("what changed", "before", "after", "change")]
      : isDue
        ? ["Nothing changed.", ""]
        : []),
    ...changes.flatMap(changeLines),
    row(isDue ? "no change seen" : "figure", "median", "newest", "nights"),
    ...steady.map((one) => {
      const [of, few] = [comparedValues(one), isDue && !isSteady(one) ? "too few: " : ""];
      const typical = figure(median(of) ?? Number.NaN);
      return row(
        `  ${oneLine(one.name)}`,
        typical,
        figure(one.values.at(-1)?.value ?? Number.NaN),
        `${few}${of.length}`,
      );
    }),
  ];
};

const nightOf = (night: Night) => ({ id: night.id, started_at: night.started_at, commit: deployedOf(night) });

/** `trends show --json`. */
export const trendsDocument = (trends: Trends) => ({
  schema: "floodgate/trends@1",
  group: trends.group,
  others: trends.others,
  nights: trends.nights.map((one) => ({
    ...nightOf(one),
    verdict: one.verdict,
    why_not: one.whyNot,
    failed: one.failed,
  })),
  figures: trends.figures.map(({ name, worse, values, changes }) => ({
    ...{ figure: name, worse },
    values: values.map(({ at, value, low, high, isCompared }) => ({
      night: at,
      value,
      low,
      high,
      compared: isCompared,
    })),
    changes: changes.map((change) => {
      const { before, after, worseBy, p, from, to } = change;
      return { before, after, worse_by: worseBy, p, from: nightOf(from), to: nightOf(to), gate: gateCommand(change) };
    }),
  })),
});
