/**
 * Compares recorded runs. They did not alternate, so only runs of one profile on one kind of machine are compared, by the
 * scatter between runs. Claims come first: a *must* that passed before and fails now is a regression, even in one run.
 */
import { someOf } from "../contract/lists.ts";
import { doubledRanks, holm } from "../gate/paired-comparison.ts";
import { failedChecks } from "../history/calibration-checks.ts";
import { type Claim, eitherOf, type Measurement, type RunDocument } from "../history/run-document.ts";
import { median } from "../history/statistics/statistics.ts";
import { calibrationDoubts } from "../history/time-doubts.ts";

/** Older baselines have no `left_out`. */
export type RunFigures = Omit<ReturnType<typeof figuresOf>, "left_out"> & Partial<ReturnType<typeof figuresOf>>;

/** Why the times of a stage may not be believed: its driver failed checks that move a time of this length. */
export const doubtOf = (
  run: Pick<RunDocument, "stages" | "calibration">,
  { stage, unit, value }: Measurement,
): string[] => {
  const driver = run.stages.find(({ name }) => name === stage)?.driver;
  if (unit !== "ms" || driver === undefined) return [];
  return calibrationDoubts(failedChecks(run.calibration ?? [], driver), value);
};

/** The part of a run that is compared; a baseline file keeps no more. `left_out`: times that are not, by `stage name`. */
export const figuresOf = (run: RunDocument) => {
  const { id, profile, environment, claims } = run;
  const measured = run.measurements.map((one) => ({ one, doubts: doubtOf(run, one) }));
  return {
    id,
    profile,
    environment: { os: environment.os, cores: environment.cores, cpu: environment.cpu, node: environment.node },
    measurements: measured
      .filter(({ doubts }) => doubts.length === 0)
      .map(({ one: { stage, name, value, unit } }) => ({ stage, name, value, unit })),
    left_out: measured
      .filter(({ doubts }) => doubts.length > 0)
      .map(({ one: { stage, name }, doubts }) => ({ measurement: `${stage} ${name}`, why: doubts.join("; ") })),
    claims: claims.map(({ id: claim, level, verdict }) => ({ id: eitherOf(claim), level, verdict })),
  };
};

const RULES: readonly (readonly [matches: RegExp, worse: "higher" | "lower", margin: number, added: number])[] = [
  [/^(latency|ttfe|event_gap)_ms_p50$/, "higher", 1.05, 1],
  [/^(latency|ttfe|event_gap)_ms_p(90|99)$/, "higher", 1.2, 5],
  [/^refusal(_at_top)?_ms_p(50|99)$/, "higher", 1.3, 5],
  [/^(reaction|recovery)_ms$/, "higher", 1.3, 100],
  [/^(goodput(_retention(_\d+)?)?|closed_form|capacity_rps|knee(_after)?_rps|jain_index|isolation)$/, "lower", 1.05, 0],
  // Shares that are near 0 in a healthy run: the margin is one point there, and a tenth of a large share.
  [/^(false_sheds|excess_sheds|hysteresis|refusal_price|wasted_work)$/, "higher", 1.1, 0.1],
  [/^oscillation$/, "higher", 1.5, 1],
  [/^amplification$/, "higher", 1.1, 0],
  [/^slots_leaked$/, "higher", 1.5, 1],
  [/_worse_by$/, "higher", 1.05, 0],
];

const ruleOf = (name: string) => RULES.find(([matches]) => matches.test(name));

export type Compared = { worse: "higher" | "lower"; margin: number; turn: (value: number) => number };

/** How a measurement is compared; `null` if it is not. `turn`: its logarithm, with the sign that makes worse higher. */
export const comparedBy = (name: string): Compared | null => {
  const rule = ruleOf(name);
  if (rule === undefined) return null;
  const [, worse, margin, added] = rule;
  const sign = worse === "higher" ? 1 : -1;
  // A value below 0 is noise and counts as 0.
  return { worse, margin, turn: (value) => sign * Math.log(Math.max(1e-9, Math.max(0, value) + added)) };
};

type RecordedVerdict = "regression" | "no-regression" | "inconclusive";

export type RecordedComparison = ReturnType<typeof compareRecorded>;

const FALSE_ALARM = 0.05;
const MISSED = 0.05;

const inside = ({ environment: { os, cores, cpu, node }, profile }: RunFigures): string =>
  `${profile} on ${cores} cores of ${cpu}, ${os}, Node ${node}`;

/**
 * Compares the *musts* by id. `broken`: passed before and fail now. `open`: nobody can tell whether they became worse,
 * because all runs before passed them and no run after decides them, or because they fail now and no run before decides
 * them.
 */
const claimsNow = (before: readonly RunFigures[], after: readonly RunFigures[]) => {
  const having = (runs: readonly RunFigures[], wanted: Claim["verdict"]): Set<string>[] =>
    runs.map(({ claims }) => {
      const musts = claims.filter(({ level, verdict }) => level === "must" && verdict === wanted);
      return new Set(musts.map(({ id }) => id));
    });
  const all = (sets: readonly Set<string>[]): Set<string> => new Set(sets.flatMap((set) => [...set]));
  const held = having(before, "pass");
  const [heldBefore, failedBefore] = [all(held), all(having(before, "fail"))];
  const [heldNow, failedNow] = [all(having(after, "pass")), all(having(after, "fail"))];
  const newlyFailed = [...failedNow.difference(failedBefore)].sort();
  const undecided = [...heldBefore.difference(heldNow).difference(failedNow)].sort();
  return {
    broken: newlyFailed.filter((id) => heldBefore.has(id)),
    open: [
      ...newlyFailed.filter((id) => !heldBefore.has(id)),
      ...undecided.filter((id) => held.every((one) => one.has(id))),
    ],
  };
};

type Measured = RunFigures["measurements"];

const byName = (runs: readonly RunFigures[]): Map<string, Measured> =>
  Map.groupBy(
    runs.flatMap(({ measurements }) => measurements),
    ({ stage, name }) => `${stage} ${name}`,
  );

/**
 * Lists the measurements that cannot be compared because a run lacks them. `gone`: all runs before have it, some run after
 * does not. `sparse`: some run before lacks it. `doubted`: the runs whose generator measured it wrongly, each with why.
 */
const incomplete = (before: readonly RunFigures[], after: readonly RunFigures[]) => {
  const now = byName(after);
  const left = [...before, ...after].flatMap(({ id, left_out = [] }) => left_out.map((one) => ({ id, ...one })));
  const compared = left.filter(({ measurement }) => ruleOf(measurement.split(" ").at(-1) ?? "") !== undefined);
  const doubted = new Map(compared.map(({ id, why }) => [id, `${id} (${why})`]));
  const isDoubted = (name: string): boolean => compared.some(({ measurement }) => measurement === name);
  const of = [...byName(before)].filter(([name, [first]]) => ruleOf(first?.name ?? "") && !isDoubted(name));
  const gone = of.filter(([name, first]) => first.length === before.length && now.get(name)?.length !== after.length);
  const sparse = of.filter(([, first]) => first.length !== before.length);
  return { gone: gone.map(([name]) => name), sparse: sparse.map(([name]) => name), doubted: [...doubted.values()] };
};

const FIRST_NAMED = 5;

/** Calls take longer at a higher rate, so a stage whose offered rates differ by more than this factor is not compared in times. */
export const RATES_APART = 1.25;
export const DEPENDS_ON_RATE = /^(?:latency|ttfe|event_gap|refusal)_ms_|^goodput$/;

const typicalOf = (values: Measured): number => median(values.map(({ value }) => value)) as number;

/** The stages whose offered rates are too far apart, each with both rates. */
const atOtherRates = (before: readonly RunFigures[], after: readonly RunFigures[]): Map<string, string> => {
  const now = byName(after);
  const stages = [...byName(before)].flatMap(([name, first]): [string, string][] => {
    const second = now.get(name);
    const [{ stage, name: of } = { stage: "", name: "" }] = first;
    if (of !== "offered_rate" || second === undefined) return [];
    const [was, is] = [typicalOf(first), typicalOf(second)];
    const isApart = Math.max(was / is, is / was) > RATES_APART;
    return isApart ? [[stage, `${stage} (${was.toFixed(1)}/s before, ${is.toFixed(1)}/s after)`]] : [];
  });
  return new Map(stages);
};

/** How much worse still passes, as a ratio above 1, by the name of a measurement; the others keep their own. */
export type Margins = Readonly<Partial<Record<string, number>>>;

type Sides = readonly [before: readonly RunFigures[], after: readonly RunFigures[]];

const judge = ([before, after]: Sides, other: ReadonlyMap<string, string>, margins: Margins) => {
  const now = byName(after);
  const series = [...byName(before)].flatMap(([measurement, first]) => {
    const second = now.get(measurement) ?? [];
    const [{ stage, name } = { stage: "", name: "" }] = first;
    if (other.has(stage) && DEPENDS_ON_RATE.test(name)) return [];
    const compared = comparedBy(name);
    if (compared === null) return [];
    const margin = margins[name] ?? compared.margin;
    if (first.length !== before.length || second.length !== after.length) return [];
    const turned = (values: Measured): number[] => values.map(({ value }) => compared.turn(value));
    return [{ measurement, margin, first, second, was: turned(first), is: turned(second) }];
  });
  const pWorse = holm(series.map(({ was, is }) => rankSumP(was, is)));
  return series.map(({ measurement, margin, first, second, was, is }, at) => {
    const shift = median(is.flatMap((one) => was.map((other) => one - other))) as number;
    const limit = Math.log(margin);
    const shifted = is.map((one) => one - limit);
    const isWorse = pWorse[at]! <= FALSE_ALARM && shift >= limit;
    const isInside = !isWorse && rankSumP(shifted, was) <= MISSED;
    const verdict: RecordedVerdict = isWorse ? "regression" : isInside ? "no-regression" : "inconclusive";
    const medians = { before: typicalOf(first), after: typicalOf(second) };
    return { measurement, ...medians, worseBy: Math.exp(shift), margin, verdict };
  });
};

/** `broken`: ids of *musts* that passed before and fail now. `rows`: by stage and name, with medians of both sides. */
export const compareRecorded = (before: Sides[0], after: Sides[1], margins: Margins = {}) => {
  let [broken, rows] = [[] as string[], [] as ReturnType<typeof judge>];
  const found = (verdict: RecordedVerdict, ...reasons: string[]) => ({ verdict, reasons, broken, rows });
  const open = (reason: string) => found("inconclusive", reason);
  if (before.length === 0 || after.length === 0) return open("no runs on one side: nothing to compare with");
  const kinds = [...new Set([...before, ...after].map(inside))];
  if (kinds.length > 1) return open(`the runs are not of one kind: ${kinds.join("; ")}`);
  const twice = [before, after].flatMap((runs) =>
    runs.filter(({ id }, at) => runs.findIndex((one) => one.id === id) < at),
  );
  if (twice[0] !== undefined) {
    return open(`the run ${twice[0].id} is given twice on one side, and counts once; leave out its copy`);
  }
  const onBoth = before.find(({ id }) => after.some((one) => one.id === id));
  if (onBoth !== undefined) return open(`the run ${onBoth.id} is given on both sides, and is never worse than itself`);
  const otherRates = atOtherRates(before, after);
  const musts = claimsNow(before, after);
  broken = musts.broken;
  rows = judge([before, after], otherRates, margins);
  const worse = rows.filter(({ verdict }) => verdict === "regression").map(({ measurement }) => measurement);
  const { gone, sparse, doubted } = incomplete(before, after);
  const left = (names: readonly string[], why: string, todo = ""): string[] =>
    names.length === 0 ? [] : [`${why} compared: ${someOf(names, FIRST_NAMED)}${todo}`];
  const calibrate = "measured by a generator that failed its calibration, so times are not";
  const rates = ". --rate, or limits in the target file, make it one rate";
  const notCompared = [
    ...left(musts.open, "decided only before or only after, so not"),
    ...left(gone, "not measured in every later run, so not", ". Look for the stage that was not played"),
    ...left(sparse, "not measured in every earlier run, so not"),
    ...left(doubted, calibrate, ". Leave these runs out"),
    ...left([...otherRates.values()], "offered another rate, so times and goodput are not", rates),
  ];
  const reasons = [
    ...(broken.length === 0 ? [] : [`claims that held before and fail now: ${broken.join(", ")}`]),
    ...(worse.length === 0 ? [] : [`worse than allowed: ${worse.join(", ")}`]),
  ];
  if (reasons.length > 0) return found("regression", ...reasons, ...notCompared);
  const none = "the runs have no measurement in common that is compared";
  if (rows.length === 0) return found("inconclusive", none, ...notCompared);
  const undecided = rows.filter(({ verdict }) => verdict === "inconclusive").length;
  if (undecided === 0) {
    // A measurement that every earlier run has and a later one lacks may have become worse, and nobody can tell.
    const isWhole = musts.open.length === 0 && gone.length === 0 && doubted.length === 0 && otherRates.size === 0;
    return found(isWhole ? "no-regression" : "inconclusive", "nothing is worse than allowed", ...notCompared);
  }
  const few = smallestRankSumP(before.length, after.length) * rows.length > FALSE_ALARM;
  const why = few
    ? `too few runs to decide by (${before.length} beside ${after.length}): six on each side mostly are enough`
    : "the runs scatter too much";
  return found("inconclusive", `${why}; ${undecided} of ${rows.length} measurements are open`, ...notCompared);
};

/**
 * The exact one-sided rank-sum test for two groups of runs, which are not paired: the probability that ranks of
 * `second` are at least this high if groups are drawn at random; 1 with an empty group. All draws are counted.
 *
 * Source: Hollander, Wolfe & Chicken, "Nonparametric Statistical Methods", 3rd ed. (2014), section 4.1.
 */
export const rankSumP = (first: readonly number[], second: readonly number[]): number => {
  const ranks = doubledRanks([...first, ...second]);
  const seen = ranks.slice(first.length).reduce((sum, rank) => sum + rank, 0);
  // ways[k][s]: choices of k runs whose ranks add up to s.
  const total = ranks.reduce((sum, rank) => sum + rank, 0);
  const ways = Array.from({ length: second.length + 1 }, () => new Array<number>(total + 1).fill(0));
  ways[0]![0] = 1;
  for (const rank of ranks) {
    for (let k = second.length; k > 0; k -= 1) {
      for (let sum = total; sum >= rank; sum -= 1) ways[k]![sum]! += ways[k - 1]![sum - rank]!;
    }
  }
  const last = ways[second.length]!;
  const all = last.reduce((sum, n) => sum + n, 0);
  return last.slice(seen).reduce((sum, n) => sum + n, 0) / all;
};

export const smallestRankSumP = (first: number, second: number): number => {
  let p = 1;
  for (let k = 1; k <= second; k += 1) p *= k / (first + k);
  return p;
};

export const BASELINE_SCHEMA = "floodgate/baseline@1";

export type Baseline = {
  schema: typeof BASELINE_SCHEMA;
  reason: string;
  saved_at: string;
  commit: string | null;
  runs: RunFigures[];
};

export const notABaseline = (value: unknown): string | null => {
  if (typeof value !== "object" || value === null) return "it is no JSON object";
  const { schema, runs } = value as Partial<Baseline>;
  if (schema !== BASELINE_SCHEMA) return `its schema is ${JSON.stringify(schema)}, expected "${BASELINE_SCHEMA}"`;
  return Array.isArray(runs) && runs.length > 0 ? null : "it has no runs";
};
