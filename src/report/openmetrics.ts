/**
 * `metrics.prom`: a finished run as OpenMetrics 1.0 text, for a textfile collector or a push gateway. Names of stages,
 * outcomes and measurements are labels, so that a dashboard does not have to learn new metrics with each scenario.
 */
import type { RunDocument, Verdict } from "../history/run-document.ts";
import { LEVELS, VERDICTS } from "./claim-order.ts";
import { escapeLabel } from "./escape.ts";

type Labels = Record<string, string>;
type Sample = { labels: Labels; value: number };
type Family = { name: string; type: "gauge" | "counter" | "info" | "stateset"; help: string; samples: Sample[] };

const SUFFIX = { gauge: "", counter: "_total", info: "_info", stateset: "" } as const;

const labelText = (labels: Labels): string => {
  const pairs = Object.entries(labels).map(([name, value]) => `${name}="${escapeLabel(value)}"`);
  return pairs.length === 0 ? "" : `{${pairs.join(",")}}`;
};

/** One family as text. A series may occur once: counters of the same labels are added, of others the last one stands. */
const textOf = (family: Family): string => {
  const series = new Map<string, number>();
  for (const { labels, value } of family.samples) {
    if (!Number.isFinite(value)) continue;
    const key = labelText(labels);
    series.set(key, family.type === "counter" ? (series.get(key) ?? 0) + value : value);
  }
  if (series.size === 0) return "";
  const name = `floodgate_${family.name}`;
  const unit = family.name.endsWith("_seconds") ? [`# UNIT ${name} seconds`] : [];
  const samples = [...series].map(([labels, value]) => `${name}${SUFFIX[family.type]}${labels} ${value}`);
  return `${[`# TYPE ${name} ${family.type}`, ...unit, `# HELP ${name} ${family.help}`, ...samples].join("\n")}\n`;
};

const RUN_VERDICTS: readonly Verdict[] = ["pass", "fail", "inconclusive"];

const aboutRun = (run: RunDocument): Family[] => {
  const one = (value: number): Sample[] => [{ labels: {}, value }];
  const info = {
    id: run.id,
    profile: run.profile,
    seed: `${run.seed}`,
    commit: run.commit ?? "",
    target: run.target.name,
  };
  const { coverage } = run;
  return [
    { name: "run", type: "info", help: "The run.", samples: [{ labels: info, value: 1 }] },
    {
      name: "run_verdict",
      type: "stateset",
      help: "1 for the verdict of the run.",
      samples: RUN_VERDICTS.map((v) => ({ labels: { floodgate_run_verdict: v }, value: v === run.verdict ? 1 : 0 })),
    },
    { name: "run_exit_code", type: "gauge", help: "0 pass, 1 fail, 4 inconclusive.", samples: one(run.exit_code) },
    {
      name: "run_duration_seconds",
      type: "gauge",
      help: "How long the run took.",
      samples: one(run.duration_ms / 1000),
    },
    { name: "outcomes_seen", type: "gauge", help: "Documented outcomes seen.", samples: one(coverage.outcomes_seen) },
    { name: "outcomes_of", type: "gauge", help: "Documented outcomes there are.", samples: one(coverage.outcomes_of) },
  ];
};

const aboutClaims = (run: RunDocument): Family => ({
  name: "claims",
  type: "gauge",
  help: "Claims by verdict and level.",
  // Zeros are written too: an alert on failed claims needs the series to exist before the first failure.
  samples: VERDICTS.flatMap((verdict) =>
    LEVELS.map((level) => ({
      labels: { verdict, level },
      value: run.claims.filter((c) => c.verdict === verdict && c.level === level).length,
    })),
  ),
});

const aboutStages = (run: RunDocument): Family[] => [
  {
    name: "stage_duration_seconds",
    type: "gauge",
    help: "How long a stage took.",
    samples: run.stages.map((s) => ({ labels: { stage: s.name, driver: s.driver }, value: s.duration_ms / 1000 })),
  },
  {
    name: "calls",
    type: "counter",
    help: "Calls of a stage by outcome; every call counts once.",
    samples: run.stages.flatMap((s) =>
      Object.entries(s.by_outcome).map(([outcome, value]) => ({
        labels: { stage: s.name, driver: s.driver, outcome },
        value,
      })),
    ),
  },
];

const aboutMeasurements = (run: RunDocument): Family[] => {
  const family = (
    name: string,
    help: string,
    pick: (m: RunDocument["measurements"][number]) => number | null,
  ): Family => ({
    name,
    type: "gauge",
    help,
    samples: run.measurements.map((m) => ({
      labels: { name: m.name, stage: m.stage, unit: m.unit },
      value: pick(m) ?? Number.NaN,
    })),
  });
  return [
    family("measurement", "A measured value, in the unit of its label.", (m) => m.value),
    family("measurement_low", "Lower end of the 95 % interval.", (m) => m.low),
    family("measurement_high", "Upper end of the 95 % interval.", (m) => m.high),
    family("measurement_samples", "How many samples it stands on.", (m) => m.n),
  ];
};

const aboutFaults = (run: RunDocument): Family => ({
  name: "faults",
  type: "gauge",
  help: "Faults injected, and whether they took effect.",
  samples: [true, false].map((effect) => ({
    labels: { took_effect: `${effect}` },
    value: run.faults.filter((f) => f.took_effect === effect).length,
  })),
});

export const openMetrics = (run: RunDocument): string => {
  const families = [
    ...aboutRun(run),
    aboutClaims(run),
    ...aboutStages(run),
    ...aboutMeasurements(run),
    aboutFaults(run),
  ];
  return `${families.map(textOf).join("")}# EOF\n`;
};
