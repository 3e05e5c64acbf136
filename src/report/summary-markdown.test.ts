import { describe, expect, test } from "vitest";
import { HOSTILE } from "./hostile-text.fixture.ts";
import { madeClaim, madeRun } from "./made-run.fixture.ts";
import { SUMMARY_BYTES_MAX, summaryMarkdown } from "./summary-markdown.ts";

const bytes = (text: string): number => new TextEncoder().encode(text).length;

describe("summary.md", () => {
  test("begins with the verdict, why, and the table of counts", () => {
    const lines = summaryMarkdown(madeRun()).split("\n");
    expect(lines[0]).toBe("# ❌ FAIL: smoke on embedded");
    expect(lines[2]).toContain("sheds-above-the-cap/chat-past-capacity");
    expect(lines.slice(4, 7)).toEqual([
      "| fail | inconclusive | skipped | pass | outcomes seen |",
      "| --- | --- | --- | --- | --- |",
      "| 2 | 1 | 3 | 8 | 9 of 30 |",
    ]);
  });

  test("says what was not judged, and why", () => {
    expect(summaryMarkdown(madeRun())).toContain("- credential server\\_downgraded".replace("\\", ""));
  });

  test("has the calibration in a sentence and as a table", () => {
    const text = summaryMarkdown(madeRun());
    expect(text).toContain("Calibration: 1 of 2 checks did not hold");
    expect(text).toContain("| null server, p50 | 5 ms | 5.21 ms | ✅ pass |");
    expect(summaryMarkdown(madeRun({ calibration: [] }))).not.toContain("Calibration");
  });

  test("of however many claims stays below 900 KiB, keeps the failures, and says what it cut", () => {
    const long = "an explanation of some length, with € signs. ".repeat(20);
    const claims = Array.from({ length: 20_000 }, (_, i) =>
      madeClaim(`invariant-${i}/stage`, { verdict: i % 2 === 0 ? "fail" : "skipped", reason: long, got: long }),
    );
    const text = summaryMarkdown(madeRun({ claims }));
    expect(bytes(text)).toBeLessThan(SUMMARY_BYTES_MAX);
    expect(bytes(text)).toBeGreaterThan(SUMMARY_BYTES_MAX * 0.8);
    expect(text).toContain("| ❌ fail | must | `invariant-0/stage`");
    expect(text).toMatch(/[\d,]+ rows are cut here/);
    expect(text).toMatch(/[\d,]+ rows of further sections are cut/);
  });

  test("every row that was not cut is there: shown and cut add up", () => {
    const claims = Array.from({ length: 500 }, (_, i) => madeClaim(`i-${i}/s`, { verdict: "fail" }));
    const text = summaryMarkdown(madeRun({ claims, stages: [], measurements: [], faults: [] }), { maxBytes: 60_000 });
    const shown = text.match(/^\| ❌ fail/gm)!.length;
    const cut = Number(/\*\*([\d,]+) rows are cut/.exec(text)![1]!.replace(",", ""));
    expect(shown + cut).toBe(500);
    expect(bytes(text)).toBeLessThan(60_000);
  });

  test("keeps rows and cells whole whatever a server said", () => {
    const run = madeRun({
      claims: [madeClaim(HOSTILE, { verdict: "fail", reason: HOSTILE, got: HOSTILE, evidence: [HOSTILE] })],
    });
    const text = summaryMarkdown(run);
    const rows = text.split("\n").filter((line) => line.startsWith("| ❌"));
    expect(rows).toHaveLength(1);
    expect(rows[0]!.replace(/\\\|/g, "").split("|")).toHaveLength(7);
    expect(rows[0]!.replace(/`[^`]*`/g, "")).not.toMatch(/<(?!br>)/);
  });
});
