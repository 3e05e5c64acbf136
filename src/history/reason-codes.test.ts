import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { REASON_CODES } from "./reason-codes.ts";

const ROOT = join(import.meta.dirname, "../..");

test("each word is made by some judge", () => {
  const files = globSync("src/**/*.ts", { cwd: ROOT }).filter(
    (name) => !/(?:\.test|\.fixture|reason-codes)\.ts$/.test(name),
  );
  const text = files.map((name) => readFileSync(join(ROOT, name), "utf8")).join();
  const made = Object.keys(REASON_CODES).filter((word) => text.includes(`"${word}"`) || /^(?:held|broken)$/.test(word));
  expect(made).toEqual(Object.keys(REASON_CODES));
});

test("the page about reports has each word with what it means and what to do, and no other", () => {
  const page = readFileSync(join(ROOT, "reports/README.md"), "utf8");
  const rows = Object.entries(REASON_CODES).map(
    ([word, { about, means, todo }]) => `| \`${word}\` | ${about} | ${means} | ${todo} |`,
  );
  expect(page).toContain(`| --- | --- | --- | --- |\n${rows.join("\n")}\n\n`);
});
