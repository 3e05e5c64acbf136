/**
 * Recorded runs compared with recorded runs. They did not alternate, so whatever the machine did meanwhile stands between them:
 * only runs of the same thing on the same machine are compared, and only how they scatter among each other decides. What is
 * exact on any machine comes first: a claim that must hold, held before and fails now, is a regression of one run.
 */
import { eitherOf } from "../../history/played-again.ts";
import type { Claim, RunDocument } from "../../history/run-document.ts";
import { median } from "../../history/statistics/statistics.ts";
import { holm } from "../holm.ts";
import { rankSumP, smallestRankSumP } from "./rank-sum.ts";

/** What a comparison takes of a run; a baseline file keeps no more. */
export type RunFigures = {
  id: string;
  profile: string;
  environment: { os: string; cores: number; cpu: string; node: string };
  measurements: { stage: string; name: string; value: number; unit: string }[];
  claims: { id: string; level: Claim["level"]; verdict: Claim["verdict"] }[];
};

export const figuresOf = ({ id, profile, environment, measurements, claims }: RunDocument): RunFigures => ({
  id,
  profile,
  environment: { os: environment.os, cores: environment.cores, cpu: environment.cpu, node: environment.node },
  measurements: measurements.map(({ stage, name, value, unit }) => ({ stage, name, value, unit })),
  claims: claims.map(({ id: claim, level, verdict }) => ({ id: eitherOf(claim), level, verdict })),
});

type Rule = { matches: RegExp; worse: "higher" | "lower"; margin: number; added: number };

/** The measurements that are compared, each with the margin within which worse still passes. */
const RULES: readonly Rule[] = [
  { matches: /^(latency|ttfe|event_gap)_ms_p50$/, worse: "higher", margin: 1.05, added: 1 },
  { matches: /^(latency|ttfe|event_gap)_ms_p(90|99)$/, worse: "higher", margin: 1.2, added: 5 },
  { matches: /^refusal_ms_p(50|99)$/, worse: "higher", margin: 1.3, added: 5 },
  { matches: /^(reaction|recovery)_ms$/, worse: "higher", margin: 1.3, added: 100 },
  {
    matches: /^(goodput|goodput_retention|capacity_rps|jain_index|isolation)$/,
    worse: "lower",
    margin: 1.05,
    added: 0,
  },
  { matches: /_worse_by$/, worse: "higher", margin: 1.05, added: 0 },
];

type RecordedRow = {
  /** Stage and name. */
  measurement: string;
  /** Medians. */
  before: number;
  after: number;
  worseBy: number;
  margin: number;
  verdict: "regression" | "no-regression" | "inconclusive";
};

export type RecordedComparison = {
  verdict: "regression" | "no-regression" | "inconclusive";
  /** Sentences: why. */
  reasons: string[];
  /** Ids of claims that must hold, that held before and fail now. */
  broken: string[];
  rows: RecordedRow[];
};

const FALSE_ALARM = 0.05;
const MISSED = 0.05;

const inside = ({ environment: { os, cores, cpu, node }, profile }: RunFigures): string =>
  `${profile} on ${cores} cores of ${cpu}, ${os}, Node ${node}`;

const brokenNow = (before: readonly RunFigures[], after: readonly RunFigures[]): string[] => {
  const verdicts = (runs: readonly RunFigures[], wanted: Claim["verdict"]): Set<string> =>
    new Set(
      runs.flatMap(({ claims }) =>
        claims.flatMap(({ id, level, verdict }) => (level === "must" && verdict === wanted ? [id] : [])),
      ),
    );
  const [held, failedBefore] = [verdicts(before, "pass"), verdicts(before, "fail")];
  return [...verdicts(after, "fail")].filter((id) => held.has(id) && !failedBefore.has(id)).sort();
};

type Series = { measurement: string; rule: Rule; before: number[]; after: number[] };

const seriesOf = (before: readonly RunFigures[], after: readonly RunFigures[]): Series[] => {
  const byName = (runs: readonly RunFigures[]): Map<string, RunFigures["measurements"]> => {
    const found = new Map<string, RunFigures["measurements"]>();
    for (const measurement of runs.flatMap(({ measurements }) => measurements)) {
      const name = `${measurement.stage} ${measurement.name}`;
      found.set(name, [...(found.get(name) ?? []), measurement]);
    }
    return found;
  };
  const now = byName(after);
  return [...byName(before)].flatMap(([measurement, first]) => {
    const second = now.get(measurement) ?? [];
    const rule = RULES.find(({ matches }) => matches.test(first[0]?.name ?? ""));
    // What some runs lack would be compared on the runs that happen to have it.
    if (rule === undefined || first.length !== before.length || second.length !== after.length) return [];
    return [{ measurement, rule, before: first.map(({ value }) => value), after: second.map(({ value }) => value) }];
  });
};

/** ln of the value, turned so that worse is higher. */
const turned = ({ worse, added }: Rule, value: number): number =>
  (worse === "higher" ? 1 : -1) * Math.log(Math.max(1e-9, value + added));

const judge = (series: readonly Series[]): RecordedRow[] => {
  const ln = series.map(({ rule, before, after }) => ({
    before: before.map((value) => turned(rule, value)),
    after: after.map((value) => turned(rule, value)),
  }));
  const worse = holm(ln.map(({ before, after }) => rankSumP(before, after)));
  return series.map(({ measurement, rule, before, after }, at) => {
    const { before: was, after: is } = ln[at] as (typeof ln)[number];
    const shift = median(is.flatMap((one) => was.map((other) => one - other))) as number;
    const limit = Math.log(rule.margin);
    const within = rankSumP(
      is.map((one) => one - limit),
      was,
    );
    const isWorse = worse[at]! <= FALSE_ALARM && shift >= limit;
    const verdict = isWorse ? "regression" : within <= MISSED ? "no-regression" : "inconclusive";
    return {
      measurement,
      before: median(before) as number,
      after: median(after) as number,
      worseBy: Math.exp(shift),
      margin: rule.margin,
      verdict,
    };
  });
};

export const compareRecorded = (before: readonly RunFigures[], after: readonly RunFigures[]): RecordedComparison => {
  const open = (reason: string, broken: string[] = []): RecordedComparison => ({
    verdict: "inconclusive",
    reasons: [reason],
    broken,
    rows: [],
  });
  if (before.length === 0 || after.length === 0) return open("no runs on one side: nothing to compare with");
  const kinds = [...new Set([...before, ...after].map(inside))];
  if (kinds.length > 1) return open(`the runs are not of one kind: ${kinds.join("; ")}`);
  const broken = brokenNow(before, after);
  const series = seriesOf(before, after);
  const rows = judge(series);
  const worse = rows.filter(({ verdict }) => verdict === "regression").map(({ measurement }) => measurement);
  const reasons = [
    ...(broken.length === 0 ? [] : [`claims that held before and fail now: ${broken.join(", ")}`]),
    ...(worse.length === 0 ? [] : [`worse than allowed: ${worse.join(", ")}`]),
  ];
  if (reasons.length > 0) return { verdict: "regression", reasons, broken, rows };
  if (rows.length === 0) return { ...open("the runs have no measurement in common that is compared"), broken };
  const undecided = rows.filter(({ verdict }) => verdict === "inconclusive").map(({ measurement }) => measurement);
  if (undecided.length === 0) {
    return { verdict: "no-regression", reasons: ["nothing is worse than allowed"], broken, rows };
  }
  const few = smallestRankSumP(before.length, after.length) * rows.length > FALSE_ALARM;
  const why = few
    ? `too few runs to decide by (${before.length} beside ${after.length}): six on each side mostly are enough`
    : "the runs scatter too much";
  const left = `${undecided.length} of ${rows.length} measurements are open`;
  return { verdict: "inconclusive", reasons: [`${why}; ${left}`], broken, rows };
};
