/**
 * What changed from night to night, and since which commit. Only nights of one profile, target and kind of machine are
 * compared, and of those the ones that passed. It decides nothing: a night fails by its claims, and the gate proves a change.
 */
import { median } from "../history/statistics/statistics.ts";
import { changePoints } from "./change-points.ts";
import { COMMIT, type Night } from "./nights.ts";
import { comparedBy, DEPENDS_ON_RATE, RATES_APART } from "./recorded-comparison.ts";

/** Below this many nights, whatever changed could be chance. */
export const NIGHTS_LEAST = 12;
/** Older nights are kept, and not looked at. */
const NIGHTS_MOST = 90;
/**
 * The p at which a single figure is compared; it is divided by the number of figures. The test of this file counts what
 * that means in false alarms a year.
 */
const P_MOST = 0.0001;
const LEAST_CHANGE = Math.log(1.02);
/** One night, or two, may be an accident of the machine. */
const LEAST_EACH = 3;
/** A night that is longer or shorter by this factor was another one: `--short`, or stages that were not there. */
const LENGTHS_APART = 1.5;

/** `at`: the number of the night in `Trends.nights`. */
export type Value = { at: number; value: number; low: number | null; high: number | null; isCompared: boolean };
/** `worseBy`: above 1 is worse. `before` and `after`: medians between this change and the next ones. */
export type Change = { from: Night; to: Night; before: number; after: number; worseBy: number; p: number };
export type Figure = { name: string; worse: "higher" | "lower"; values: Value[]; changes: Change[] };
/** `whyNot`: why a night is not compared; `null` if it is. */
export type ShownNight = Night & { whyNot: string | null };
export type Trends = { group: string; others: string[]; nights: ShownNight[]; figures: Figure[] };

const groupOf = ({ profile, target, host }: Night): string =>
  `${profile} on ${target.name}${target.embedded ? "" : " (external)"}, ${host.cores} cores of ${host.cpu}`;

const medianOf = (values: readonly number[]): number => median(values) ?? 0;
const areApart = (a: number, b: number, factor: number): boolean => Math.max(a, b) > factor * Math.min(a, b);

const shownNights = (nights: readonly Night[]): ShownNight[] => {
  const typicalMs = medianOf(nights.filter(({ verdict }) => verdict === "pass").map((one) => one.duration_ms));
  return nights.map((night) => {
    const isOther = areApart(night.duration_ms, typicalMs, LENGTHS_APART);
    const whyNot = night.verdict !== "pass" ? night.verdict : isOther ? "of another length" : null;
    return { ...night, whyNot };
  });
};

const valuesOf = (name: string, nights: readonly ShownNight[]): Value[] => {
  const at = name.lastIndexOf("/");
  const rateName = `${name.slice(0, at)}/offered_rate`;
  const rates = nights.flatMap(({ measurements }) => measurements[rateName]?.[0] ?? []);
  const isTime = DEPENDS_ON_RATE.test(name.slice(at + 1));
  return nights.flatMap(({ measurements, whyNot }, i) => {
    const [value = null, low = null, high = null] = measurements[name] ?? [];
    if (value === null) return [];
    const rate = measurements[rateName]?.[0] ?? null;
    const isOther = isTime && rate !== null && areApart(rate, medianOf(rates), RATES_APART);
    return [{ at: i, value, low, high, isCompared: whyNot === null && !isOther }];
  });
};

type Turn = (value: number) => number;

/** Nights scatter at least as much as a night's own interval says: 3.92 standard deviations are a 95 % interval. */
const leastVariance = (values: readonly Value[], turn: Turn): number =>
  medianOf(
    values.flatMap(({ low, high }) => (low === null || high === null ? [] : ((turn(high) - turn(low)) / 3.92) ** 2)),
  );

const changesOf = (values: readonly Value[], turn: Turn, nights: readonly ShownNight[], pMost: number): Change[] => {
  if (values.length < NIGHTS_LEAST) return [];
  const least = { leastChange: LEAST_CHANGE, leastEach: LEAST_EACH, leastVariance: leastVariance(values, turn) };
  const strictness = { pMost, ...least, mayBeCorrelated: true };
  const points = changePoints(
    values.map(({ value }) => turn(value)),
    strictness,
  );
  return points.map(({ at, p, before, after }, i) => {
    const between = (from: number, to?: number): number => medianOf(values.slice(from, to).map(({ value }) => value));
    const [last, first] = [values[at - 1], values[at]] as [Value, Value];
    return {
      ...{ from: nights[last.at] as Night, to: nights[first.at] as Night, p, worseBy: Math.exp(after - before) },
      ...{ before: between(points[i - 1]?.at ?? 0, at), after: between(at, points[i + 1]?.at) },
    };
  });
};

/** `nights` in order of time. The group of the newest one is shown; `null` if there is no night. */
export const trendsOf = (nights: readonly Night[]): Trends | null => {
  const newest = nights.at(-1);
  if (newest === undefined) return null;
  const group = groupOf(newest);
  const groups = Map.groupBy(nights, groupOf);
  const shown = shownNights(groups.get(group)?.slice(-NIGHTS_MOST) ?? []);
  const names = [...new Set(shown.flatMap(({ measurements }) => Object.keys(measurements)))];
  const known = names.flatMap((name) => {
    const by = comparedBy(name.slice(name.lastIndexOf("/") + 1));
    return by === null ? [] : [{ name, by, values: valuesOf(name, shown) }];
  });
  const isEnough = (values: readonly Value[]): boolean => values.filter((one) => one.isCompared).length >= NIGHTS_LEAST;
  const pMost = P_MOST / Math.max(1, known.filter(({ values }) => isEnough(values)).length);
  const figures = known.map(({ name, by: { worse, turn }, values }) => {
    const compared = values.filter(({ isCompared }) => isCompared);
    return { name, worse, values, changes: changesOf(compared, turn, shown, pMost) };
  });
  const others = [...groups].filter(([name]) => name !== group).map(([name, { length }]) => `${length} of ${name}`);
  return { group, others, nights: shown, figures };
};

/** The commit of what was loaded; `null` if nobody stated it. */
export const deployedOf = ({ deployed, commit, target }: Night): string | null =>
  deployed ?? (target.embedded ? commit : null);

/** The command that proves a change, on target files of the two commits; `null` if they are the same or not known. */
export const gateCommand = ({ from, to }: Change): string | null => {
  const [base, head] = [deployedOf(from), deployedOf(to)];
  if (base === null || head === null || base === head || !COMMIT.test(base) || !COMMIT.test(head)) return null;
  return `npx floodgate gate --base ${base}.json --head ${head}.json`;
};
