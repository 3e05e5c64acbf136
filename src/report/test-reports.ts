/** A run's claims as test cases, in the two formats that readers of test reports know. */
import { clean, cleanValue } from "../contract/foreign-text.ts";
import { type Claim, claimOf, groupOf, type RunDocument } from "../history/run-document.ts";
import { sumOf } from "../history/statistics/statistics.ts";
import { clip, escapeXml, oneLine } from "./escape.ts";
import { claimsInOrder, whyOf } from "./verdict.ts";

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
  const parts = { id: "run/verdict", stage: "run", verdict, reason: whyOf(run), expected, got: verdict, replay: "" };
  return [claimOf(parts), ...cases];
};

const MESSAGE_MAX = 500;

const attributes = (values: Record<string, string | number>): string =>
  Object.entries(values)
    .map(([name, value]) => ` ${name}="${escapeXml(String(value))}"`)
    .join("");

/** CDATA needs no entities; only its end mark is split. */
const cdata = (text: string): string => `<![CDATA[${clean(text).replaceAll("]]>", "]]]]><![CDATA[>")}]]>`;

const detailsOf = (claim: Claim): string =>
  [
    `expected: ${claim.expected}`,
    `got: ${claim.got}`,
    `why: ${claim.reason}`,
    ...(claim.spec.length > 0 ? [`specification items: ${claim.spec.join(", ")}`] : []),
    ...(claim.evidence.length > 0 ? [`evidence: ${claim.evidence.join(", ")}`] : []),
    ...(claim.replay === "" ? [] : [`replay: ${claim.replay}`]),
  ].join("\n");

const TAGS = { broken: "failure", open: "error", remark: "skipped" } as const;

const resultOf = (claim: Claim): string => {
  const kind = caseKindOf(claim);
  const { verdict, level, reason } = claim;
  if (kind === "held") return "";
  if (kind === "skipped") return `<skipped${attributes({ message: clip(oneLine(reason), MESSAGE_MAX) })}/>`;
  const what = kind === "remark" ? `${verdict} (${level}; the run is not judged by it): ` : "";
  const message = clip(oneLine(what + reason), MESSAGE_MAX);
  const type = verdict === "fail" ? level : verdict;
  return `<${TAGS[kind]}${attributes({ message, type })}>${cdata(detailsOf(claim))}</${TAGS[kind]}>`;
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

const STATUS = { held: "passed", broken: "failed", skipped: "skipped", open: "other", remark: "other" } as const;

const testOf = (claim: Claim): object => ({
  name: clean(claim.id),
  status: STATUS[caseKindOf(claim)],
  // The format demands a duration; a claim is judged over a whole stage and has none of its own.
  duration: 0,
  suite: [clean(claim.stage === "" ? "run" : claim.stage)],
  message: clean(claim.reason),
  ...(claim.verdict === "pass" ? {} : { trace: clean(`expected: ${claim.expected}\ngot: ${claim.got}`) }),
  rawStatus: claim.verdict,
  type: claim.level,
  tags: claim.spec.map((item) => `spec-${item}`),
  extra: {
    floodgate: cleanValue({ expected: claim.expected, got: claim.got, evidence: claim.evidence, replay: claim.replay }),
  },
});

/**
 * `ctrf.json`: the Common Test Report Format (ctrf.io, schema 0.0). An inconclusive claim and a remark have the status
 * "other", beside the verdict as `rawStatus`. What the format has no field for stands under `extra.floodgate`.
 */
export const ctrfJson = (run: RunDocument): string => {
  const cases = casesOf(run);
  const { held: passed, broken: failed, open, remark, skipped } = countByKind(cases);
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
        ...{ passed, failed, skipped, pending: 0, other: open + remark, start, stop },
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
