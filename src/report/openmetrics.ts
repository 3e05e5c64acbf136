/** `metrics.prom`: a finished run as OpenMetrics 1.0 text. Stages, outcomes and measurements are labels. */
import type { Measurement, RunDocument, Verdict } from "../history/run-document.ts";
import { escapeLabel } from "./escape.ts";
import { LEVELS, VERDICTS } from "./verdict.ts";

type Labels = Record<string, string>;
type Samples = readonly (readonly [labels: Labels, value: number])[];
type Type = "gauge" | "counter" | "info" | "stateset";
type Family = readonly [name: string, type: Type, help: string, samples: (run: RunDocument) => Samples];

const SUFFIX = { gauge: "", counter: "_total", info: "_info", stateset: "" } as const;

const labelText = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
};

/**
 * One family as text. A series occurs once: counters with equal labels are added, of other series the last one counts.
 */
const textOf = ([shortName, type, help, samplesOf]: Family, run: RunDocument): string => {
  const series = new Map<string, number>();
  for (const [labels, value] of samplesOf(run)) {
    if (!Number.isFinite(value)) continue;
    const key = labelText(labels);
    series.set(key, type === "counter" ? (series.get(key) ?? 0) + value : value);
  }
  if (series.size === 0) return "";
  const name = `floodgate_${shortName}`;
  const unit = name.endsWith("_seconds") ? [`# UNIT ${name} seconds`] : [];
  const samples = [...series].map(([labels, value]) => `${name}${SUFFIX[type]}${labels} ${value}`);
  return `${[`# TYPE ${name} ${type}`, ...unit, `# HELP ${name} ${help}`, ...samples].join("\n")}\n`;
};

const RUN_VERDICTS: readonly Verdict[] = ["pass", "fail", "inconclusive"];

const one = (of: (run: RunDocument) => number) => (run: RunDocument) => [[{}, of(run)]] as const;

const ofMeasurements =
  (of: (measurement: Measurement) => number | null) =>
  ({ measurements }: RunDocument): Samples =>
    measurements.map((m) => [{ name: m.name, stage: m.stage, unit: m.unit }, of(m) ?? Number.NaN]);

// biome-ignore format: a family on a line or two
const FAMILIES: readonly Family[] = [
  ["run", "info", "The run.", ({ id, profile, seed, commit, target }) => [[{ id, profile, seed: `${seed}`, commit: commit ?? "", target: target.name }, 1]]],
  ["run_verdict", "stateset", "1 for the verdict of the run.", ({ verdict }) => RUN_VERDICTS.map((v) => [{ floodgate_run_verdict: v }, v === verdict ? 1 : 0])],
  ["run_exit_code", "gauge", "0 pass, 1 fail, 4 inconclusive.", one((run) => run.exit_code)],
  ["run_duration_seconds", "gauge", "How long the run took.", one((run) => run.duration_ms / 1000)],
  ["outcomes_seen", "gauge", "Documented outcomes seen.", one(({ coverage }) => coverage.outcomes_seen)],
  ["outcomes_of", "gauge", "Documented outcomes there are.", one(({ coverage }) => coverage.outcomes_of)],
  // Zeros are written too: an alert on failed claims needs the series to exist before the first failure.
  ["claims", "gauge", "Claims by verdict and level.", ({ claims }) =>
    VERDICTS.flatMap((verdict) => LEVELS.map((level) => [{ verdict, level }, claims.filter((claim) => claim.verdict === verdict && claim.level === level).length]))],
  ["stage_duration_seconds", "gauge", "How long a stage took.", ({ stages }) => stages.map(({ name, driver, duration_ms: ms }) => [{ stage: name, driver }, ms / 1000])],
  ["calls", "counter", "Calls of a stage by outcome; every call counts once.", ({ stages }) =>
    stages.flatMap(({ name: stage, driver, by_outcome }) => Object.entries(by_outcome).map(([outcome, n]) => [{ stage, driver, outcome }, n]))],
  ["measurement", "gauge", "A measured value, in the unit of its label.", ofMeasurements((m) => m.value)],
  ["measurement_low", "gauge", "Lower end of the 95 % interval.", ofMeasurements((m) => m.low)],
  ["measurement_high", "gauge", "Upper end of the 95 % interval.", ofMeasurements((m) => m.high)],
  ["measurement_samples", "gauge", "How many samples it stands on.", ofMeasurements((m) => m.n)],
  ["faults", "gauge", "Faults injected, and whether they took effect.", ({ faults }) =>
    [true, false].map((effect) => [{ took_effect: `${effect}` }, faults.filter((fault) => fault.took_effect === effect).length])],
];

export const openMetrics = (run: RunDocument): string =>
  `${FAMILIES.map((family) => textOf(family, run)).join("")}# EOF\n`;
