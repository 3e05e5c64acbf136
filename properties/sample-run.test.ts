/** The run folder that is committed for everybody to open: whole, judged alike today, and of no machine. */
import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findSecrets } from "../src/contract/credentials.ts";
import { outcomesOf } from "../src/history/outcomes-of.fixture.ts";
import { judgeAgain } from "../src/run/read-run.ts";

const FOLDER = join(import.meta.dirname, "../reports/sample");
const read = (name: string): string => readFileSync(join(FOLDER, name), "utf8");
const files = readdirSync(FOLDER);

test("no credential and no path of a machine stands in it", () => {
  expect(files).toContain("report.html");
  for (const name of files) {
    expect(findSecrets(read(name)), name).toEqual([]);
    expect(read(name), name).not.toMatch(/\/(?:tmp|home|root|work|Users)\//);
  }
  expect(files.reduce((sum, name) => sum + read(name).length, 0)).toBeLessThan(1_500_000);
});

test("judged again it gets the same verdicts, and its series add up", () => {
  const { document, series, changed } = judgeAgain(FOLDER);
  expect(changed.filter(({ was, is }) => was?.verdict !== is.verdict)).toEqual([]);
  expect(series.stages.map(outcomesOf)).toEqual(document.stages.map(({ by_outcome }) => by_outcome));
});

test("its page is the one that a report of it writes: charts, and the one script that its policy names", () => {
  const page = read("report.html");
  const [, script = ""] = /<script>([\s\S]*)<\/script>/.exec(page) ?? [];
  expect(page).toContain(`script-src 'sha256-${createHash("sha256").update(script).digest("base64")}'`);
  expect(page.split('<figure class="chart').length).toBeGreaterThan(8);
});
