/**
 * `ctrf.json`: the Common Test Report Format (ctrf.io, schema 0.0), one test per claim. An inconclusive claim has the
 * status "other": it is neither passed nor failed. What the format has no field for stands under `extra.floodgate`.
 */

import { clean } from "../contract/foreign-text.ts";
import type { Claim, RunDocument } from "../history/run-document.ts";
import { casesOf, countByVerdict } from "./verdict.ts";

const STATUS = { pass: "passed", fail: "failed", skipped: "skipped", inconclusive: "other" } as const;

const testOf = (claim: Claim): object => ({
  name: clean(claim.id),
  status: STATUS[claim.verdict],
  // The format demands a duration; a claim is judged over a whole stage and has none of its own.
  duration: 0,
  suite: [clean(claim.stage === "" ? "run" : claim.stage)],
  message: clean(claim.reason),
  ...(claim.verdict === "pass" ? {} : { trace: clean(`expected: ${claim.expected}\ngot: ${claim.got}`) }),
  rawStatus: claim.verdict,
  type: claim.level,
  tags: claim.spec.map((item) => `spec-${item}`),
  extra: {
    floodgate: {
      expected: clean(claim.expected),
      got: clean(claim.got),
      evidence: claim.evidence.map(clean),
      replay: clean(claim.replay),
    },
  },
});

export const ctrfJson = (run: RunDocument): string => {
  const cases = casesOf(run);
  const { pass, fail, skipped, inconclusive } = countByVerdict(cases);
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
        ...{ passed: pass, failed: fail, skipped, pending: 0, other: inconclusive, start, stop },
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
