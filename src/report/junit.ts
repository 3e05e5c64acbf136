/**
 * `junit.xml`: one test case per claim, one suite per stage, in the dialect that Jenkins, GitLab and GitHub actions read.
 * Inconclusive is an `<error>`, so that no reader counts it as passed; a claim below `must` that fails is a `<failure>`
 * of that type, though it does not fail the run.
 */

import { clean } from "../contract/foreign-text.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { clip, escapeXml, oneLine } from "./escape.ts";
import { casesOf, countByVerdict, groupOf } from "./verdict.ts";

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

const resultOf = (claim: Claim): string => {
  const message = clip(oneLine(claim.reason), MESSAGE_MAX);
  if (claim.verdict === "pass") return "";
  if (claim.verdict === "skipped") return `<skipped${attributes({ message })}/>`;
  const [tag, type] = claim.verdict === "fail" ? ["failure", claim.level] : ["error", "inconclusive"];
  return `<${tag}${attributes({ message, type })}>${cdata(detailsOf(claim))}</${tag}>`;
};

const caseOf = (claim: Claim, time: string): string => {
  const head = `    <testcase${attributes({ classname: `floodgate.${groupOf(claim.id)}`, name: claim.id, time })}`;
  const result = resultOf(claim);
  return result === "" ? `${head}/>` : `${head}>${result}</testcase>`;
};

const totals = (claims: readonly Claim[]): Record<string, number> => {
  const { fail: failures, inconclusive: errors, skipped } = countByVerdict(claims);
  return { tests: claims.length, failures, errors, skipped };
};

const seconds = (ms: number): string => (ms / 1000).toFixed(3);

export const junitXml = (run: RunDocument): string => {
  const cases = casesOf(run);
  const suites = Map.groupBy(cases, ({ stage, id }) => (stage === "" ? groupOf(id) : stage));
  const durations = new Map(run.stages.map((stage) => [stage.name, stage.duration_ms]));
  const properties = { id: run.id, verdict: run.verdict, seed: run.seed, commit: run.commit ?? "unknown" };
  const entries = Object.entries(properties).map(([name, value]) => `<property${attributes({ name, value })}/>`);
  // The suite `run` takes the time that no stage took.
  const besideStages = Math.max(
    0,
    run.stages.reduce((left, stage) => left - stage.duration_ms, run.duration_ms),
  );
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
  const whole = attributes({ name: `floodgate ${run.profile}`, ...totals(cases), time: seconds(run.duration_ms) });
  return `<?xml version="1.0" encoding="UTF-8"?>\n<testsuites${whole}>\n${lines.join("\n")}\n</testsuites>\n`;
};
