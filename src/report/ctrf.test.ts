import { describe, expect, test } from "vitest";
import { ctrfJson } from "./formats.ts";
import { HOSTILE } from "./hostile-text.fixture.ts";
import { madeClaim, madeRun } from "./made-run.fixture.ts";

const parsed = (...args: Parameters<typeof ctrfJson>) => JSON.parse(ctrfJson(...args));

describe("ctrf.json", () => {
  test("has what the schema requires, and sums that agree", () => {
    const report = parsed(madeRun());
    expect(report).toMatchObject({
      reportFormat: "CTRF",
      specVersion: "0.0.0",
      results: { tool: { name: "floodgate" } },
    });
    const { summary, tests } = report.results;
    expect(summary).toMatchObject({ tests: 14, passed: 8, failed: 2, skipped: 3, pending: 0, other: 1 });
    expect(summary.stop - summary.start).toBe(144_000);
    for (const one of tests) {
      expect(one).toMatchObject({ name: expect.any(String), status: expect.any(String), duration: expect.any(Number) });
    }
  });

  test("an inconclusive claim is failed, which alone makes a reader's job red, and a skipped one skipped", () => {
    const claims = [madeClaim("a/s", { verdict: "inconclusive" }), madeClaim("b/s", { verdict: "skipped" })];
    const { tests, summary } = parsed(madeRun({ claims, verdict: "inconclusive", exit_code: 4 })).results;
    expect(tests).toMatchObject([{ status: "failed", rawStatus: "inconclusive" }, { status: "skipped" }]);
    expect(summary).toMatchObject({ tests: 2, passed: 0, failed: 1, skipped: 1, other: 0 });
  });

  test("a should that does not hold is other, with its verdict and level beside it", () => {
    const claims = [madeClaim("a/s"), madeClaim("b/s", { verdict: "fail", level: "should" })];
    const { tests, summary } = parsed(madeRun({ claims, verdict: "pass", exit_code: 0 })).results;
    expect(tests).toContainEqual(expect.objectContaining({ status: "other", rawStatus: "fail", type: "should" }));
    expect(summary).toMatchObject({ tests: 2, passed: 1, failed: 0, other: 1 });
  });

  test("a run that judged nothing has one test that is not passed", () => {
    const { summary } = parsed(madeRun({ claims: [], verdict: "inconclusive", exit_code: 4 })).results;
    expect(summary).toMatchObject({ tests: 1, passed: 0, failed: 1 });
  });

  test("stays JSON of whole characters whatever a server said", () => {
    const report = parsed(madeRun({ claims: [madeClaim(HOSTILE, { verdict: "fail", reason: HOSTILE })] }));
    expect(report.results.tests[0].message).not.toMatch(/\p{Cs}/u);
  });
});
