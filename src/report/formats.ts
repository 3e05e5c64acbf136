/** A run for programs: claims as test cases (JUnit, CTRF), figures for OpenMetrics, and what nights are compared by. */
import { clean, cleanValue } from "../contract/foreign-text.ts";
import { BROKEN, openBy } from "../history/reason-codes.ts";
import { type Claim, claimOf, groupOf, type Measurement, type RunDocument } from "../history/run-document.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { NIGHT_SCHEMA, type Night } from "../trends/nights.ts";
import { doubtOf } from "../trends/recorded-comparison.ts";
import { clip, escapeHtml, escapeLabel, escapeXml, oneLine, utf8Bytes } from "./escape.ts";
import { claimsInOrder, countByVerdict, LEVELS, VERDICTS, whyOf } from "./verdict.ts";

type CaseKind = "held" | "broken" | "open" | "remark" | "skipped";

/**
 * What a claim is as a test case. Readers turn a job red for a red case, so only what decides about the run is red:
 * `broken` and `open` are claims that must hold. A claim below that does not hold, or could not be decided, is a `remark`:
 * neither passed nor red.
 */
const caseKindOf = ({ verdict, level }: Claim): CaseKind => {
  if (verdict === "pass") return "held";
  if (verdict === "skipped") return "skipped";
  if (level !== "must") return "remark";
  return verdict === "fail" ? "broken" : "open";
};

const countByKind = (claims: readonly Claim[]): Record<CaseKind, number> => {
  const counts = { held: 0, broken: 0, open: 0, remark: 0, skipped: 0 };
  for (const claim of claims) counts[caseKindOf(claim)] += 1;
  return counts;
};

/**
 * Readers of test reports know only cases: if the run is not a pass and no claim says so (a required group was absent,
 * nothing was judged), a case `run/verdict` is added.
 */
const casesOf = (run: RunDocument): Claim[] => {
  const cases = claimsInOrder(run.claims);
  const { verdict } = run;
  const kinds = new Set(run.claims.map(caseKindOf));
  const isSaid = kinds.has("broken") || (kinds.has("open") && verdict !== "fail");
  if (verdict === "pass" || isSaid) return cases;
  const expected = "every claim that must hold, and everything required, judged and found to hold";
  const ruling = verdict === "fail" ? BROKEN : openBy("not-seen");
  const parts = { id: "run/verdict", stage: "run", reason: whyOf(run), expected, got: verdict, replay: "" };
  return [claimOf({ ...parts, ...ruling }), ...cases];
};

const MESSAGE_MAX = 500;

const attributes = (values: Record<string, string | number>): string =>
  Object.entries(values)
    .map(([name, value]) => ` ${name}="${escapeXml(String(value))}"`)
    .join("");

/** The first line that a CI system shows of a case: why, and of a failure what came, unless the reason says so. */
const messageOf = ({ verdict, reason, got }: Claim): string =>
  verdict !== "fail" || reason.includes(got) ? reason : `${reason} (${got})`;

const detailsOf = (claim: Claim): string =>
  [
    `expected: ${claim.expected}`,
    `got: ${claim.got}`,
    `why: ${claim.reason}`,
    ...(claim.spec.length > 0 ? [`specification items: ${claim.spec.join(", ")}`] : []),
    ...(claim.evidence.length > 0 ? [`evidence: ${claim.evidence.join(", ")}`] : []),
    `what it means and what breaks it: npx floodgate explain ${claim.id}`,
    ...(claim.replay === "" ? [] : [`replay: ${claim.replay}`]),
  ].join("\n");

const TAGS = { broken: "failure", open: "error", remark: "skipped" } as const;

const resultOf = (claim: Claim): string => {
  const kind = caseKindOf(claim);
  const { verdict, level, reason } = claim;
  if (kind === "held") return "";
  // Runs of older versions have no codes.
  const type = claim.code ?? verdict;
  if (kind === "skipped") return `<skipped${attributes({ message: clip(oneLine(reason), MESSAGE_MAX), type })}/>`;
  const what = kind === "remark" ? `${verdict} (${level}; the run is not judged by it): ` : "";
  const message = clip(oneLine(what + messageOf(claim)), MESSAGE_MAX);
  return `<${TAGS[kind]}${attributes({ message, type })}>${escapeHtml(detailsOf(claim))}</${TAGS[kind]}>`;
};

const caseOf = (claim: Claim, time: string): string => {
  const head = `    <testcase${attributes({ classname: `floodgate.${groupOf(claim.id)}`, name: claim.id, time })}`;
  const result = resultOf(claim);
  return result === "" ? `${head}/>` : `${head}>${result}</testcase>`;
};

const totals = (claims: readonly Claim[]): Record<string, number> => {
  const { broken: failures, open: errors, skipped, remark } = countByKind(claims);
  return { tests: claims.length, failures, errors, skipped: skipped + remark };
};

const seconds = (ms: number): string => (ms / 1000).toFixed(3);

/**
 * `junit.xml`: one suite per stage, in the dialect that Jenkins, GitLab and GitHub actions read. Inconclusive is an
 * `<error>`, so that no reader counts it as passed; a remark is `<skipped>`, which no reader counts as passed or failed.
 */
export const junitXml = (run: RunDocument): string => {
  const cases = casesOf(run);
  const suites = Map.groupBy(cases, ({ stage, id }) => (stage === "" ? groupOf(id) : stage));
  const durations = new Map(run.stages.map((stage) => [stage.name, stage.duration_ms]));
  const properties = { id: run.id, verdict: run.verdict, seed: run.seed, commit: run.commit ?? "unknown" };
  const entries = Object.entries(properties).map(([name, value]) => `<property${attributes({ name, value })}/>`);
  // The time outside of all stages belongs to the suite `run`.
  const besideStages = Math.max(0, run.duration_ms - sumOf([...durations.values()]));
  const lines = [...suites].flatMap(([name, claims]) => {
    const duration = durations.get(name) ?? (name === "run" ? besideStages : 0);
    const time = seconds(duration);
    // All claims of a stage are judged on the same calls, so each gets an equal share of the stage's time.
    const share = seconds(duration / claims.length);
    return [
      `  <testsuite${attributes({ name, ...totals(claims), time, timestamp: run.started_at })}>`,
      `    <properties>${entries.join("")}</properties>`,
      ...claims.map((claim) => caseOf(claim, share)),
      "  </testsuite>",
    ];
  });
  // The schema of Jenkins' xUnit plugin allows no sum of skipped cases here, only at a suite.
  const { skipped: _, ...sums } = totals(cases);
  const whole = attributes({ name: `floodgate ${run.profile}`, ...sums, time: seconds(run.duration_ms) });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites${whole}>\n${lines.join("\n")}\n</testsuites>\n`;
};

const STATUS = { held: "passed", broken: "failed", skipped: "skipped", open: "failed", remark: "other" } as const;

const testOf = (claim: Claim): object => ({
  name: clean(claim.id),
  status: STATUS[caseKindOf(claim)],
  // The format demands a duration; a claim is judged over a whole stage and has none of its own.
  duration: 0,
  suite: [clean(claim.stage === "" ? "run" : claim.stage)],
  message: clean(messageOf(claim)),
  ...(claim.verdict === "pass" ? {} : { trace: clean(detailsOf(claim)) }),
  rawStatus: claim.verdict,
  type: claim.level,
  tags: claim.spec.map((item) => `spec-${item}`),
  extra: {
    floodgate: cleanValue({
      code: claim.code,
      expected: claim.expected,
      got: claim.got,
      evidence: claim.evidence,
      replay: claim.replay,
    }),
  },
});

/**
 * `ctrf.json`: the Common Test Report Format (ctrf.io, schema 0.0). Its readers turn a job red for the status "failed" alone, so an
 * inconclusive claim has it; a remark is "other". The verdict stands beside it as `rawStatus`, and what the format has no field
 * for under `extra.floodgate`.
 */
export const ctrfJson = (run: RunDocument): string => {
  const cases = casesOf(run);
  const { held: passed, broken, open, remark: other, skipped } = countByKind(cases);
  const [start, stop] = [run.started_at, run.finished_at].map((at) => Date.parse(at) || 0);
  const report = {
    reportFormat: "CTRF",
    specVersion: "0.0.0",
    runId: run.id,
    generatedBy: "floodgate",
    results: {
      tool: { name: "floodgate" },
      summary: {
        tests: cases.length,
        ...{ passed, failed: broken + open, skipped, pending: 0, other, start, stop },
        duration: Math.max(0, Math.round(run.duration_ms)),
      },
      tests: cases.map(testOf),
      environment: {
        appName: clean(run.target.name),
        ...(run.commit === null ? {} : { commit: run.commit }),
        osPlatform: clean(run.environment.os),
        testEnvironment: run.target.embedded ? "embedded" : "external",
        extra: { floodgate: { ...run.environment, host_notes: run.environment.host_notes.map(clean) } },
      },
      extra: {
        floodgate: { verdict: run.verdict, exit_code: run.exit_code, seed: run.seed, coverage: run.coverage },
      },
    },
  };
  return `${JSON.stringify(report, null, 2)}\n`;
};

// `metrics.prom`: a finished run as OpenMetrics 1.0 text. Stages, outcomes and measurements are labels. Its types are those that
// the older text format has as well, because Pushgateway and node_exporter's textfile collector read no other.

type Labels = Record<string, string>;
type Samples = readonly (readonly [labels: Labels, value: number])[];
type Type = "gauge" | "counter";
type Family = readonly [name: string, type: Type, help: string, samples: (run: RunDocument) => Samples];

const SUFFIX = { gauge: "", counter: "_total" } as const;

const labelText = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
};

/**
 * Writes a family as text. A series occurs once: counters with equal labels are added, of other series the last one counts.
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

const one = (of: (run: RunDocument) => number) => (run: RunDocument) => [[{}, of(run)]] as const;

const ofMeasurements =
  (of: (measurement: Measurement) => number | null) =>
  ({ measurements }: RunDocument): Samples =>
    measurements.map((m) => [{ name: m.name, stage: m.stage, unit: m.unit }, of(m) ?? Number.NaN]);

// biome-ignore format: a family on a line or two
const FAMILIES: readonly Family[] = [
  ["run_info", "gauge", "The run.", ({ id, profile, seed, commit, target }) => [[{ id, profile, seed: `${seed}`, commit: commit ?? "", target: target.name }, 1]]],
  ["run_verdict", "gauge", "1 for the verdict of the run.", ({ verdict }) => (["pass", "fail", "inconclusive"] as const).map((v) => [{ floodgate_run_verdict: v }, v === verdict ? 1 : 0])],
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

export const openMetrics = (run: RunDocument) => `${FAMILIES.map((family) => textOf(family, run)).join("")}# EOF\n`;

// `night.json`: the part of a night's run that is kept to compare nights.

const BYTES_MOST = 4_096;
const FAILED_MOST = 12;
const DIGITS = 4;

/** Measurements by which nights are compared come first; others follow while there is room. */
const FIRST: readonly string[] = [
  ...["knee_rps", "knee_after_rps", "goodput_retention", "goodput_retention_5", "goodput_retention_10"],
  ...["excess_sheds", "false_sheds", "reaction_ms", "recovery_ms", "hysteresis", "oscillation", "amplification"],
  ...["closed_form", "refusal_price", "wasted_work", "isolation", "jain_index", "slots_leaked", "capacity_rps"],
  ...["offered_rate", "latency_ms_p50", "latency_ms_p99", "ttfe_ms_p50", "ttfe_ms_p99"],
  ...["event_gap_ms_p50", "event_gap_ms_p99", "refusal_ms_p50", "refusal_ms_p99", "achieved_rate"],
];
/** Every stage has these; without an interval they show little, so they come last. */
const EVERYWHERE: readonly string[] = ["amplification", "jain_index"];

/** Quantiles of a stage with a schedule come before those of an experiment, which has a tenth of the calls. */
const rankOf = ({ name, low, stage }: Measurement, scheduled: ReadonlySet<string>): number => {
  if (!FIRST.includes(name) || (low === null && EVERYWHERE.includes(name))) return 2 * FIRST.length;
  return FIRST.indexOf(name) + (/_p\d+$/.test(name) && !scheduled.has(stage) ? FIRST.length : 0);
};

const short = (value: number | null): number | null => (value === null ? null : Number(value.toPrecision(DIGITS)));

/** At most 4 KB, and without times that the generator measured wrongly. */
export const nightJson = ({ claims, measurements, ...run }: RunDocument): string => {
  const { id, profile, seed, commit, started_at, duration_ms, verdict, exit_code, environment } = run;
  const failed = claims.filter((claim) => claim.level === "must" && claim.verdict === "fail").map((claim) => claim.id);
  const night: Night = {
    ...{ schema: NIGHT_SCHEMA, id, profile, seed, commit, started_at, duration_ms, verdict, exit_code },
    target: { name: run.target.name.slice(0, 100), embedded: run.target.embedded },
    host: { cores: environment.cores, cpu: environment.cpu },
    claims: countByVerdict(claims),
    failed: failed.slice(0, FAILED_MOST),
    left_out: measurements.length,
    measurements: {},
  };
  let text = JSON.stringify(night);
  const scheduled = new Set(measurements.flatMap(({ name, stage }) => (name === "offered_rate" ? stage : [])));
  const believed = measurements.filter((one) => doubtOf(run, one).length === 0);
  const sorted = believed.toSorted((a, b) => rankOf(a, scheduled) - rankOf(b, scheduled));
  for (const { name, stage, value, low, high, n } of sorted) {
    night.measurements[`${stage}/${name}`] = [short(value), short(low), short(high), n];
    night.left_out -= 1;
    const longer = JSON.stringify(night);
    if (utf8Bytes(longer) + 1 > BYTES_MOST) break;
    text = longer;
  }
  return `${text}\n`;
};
