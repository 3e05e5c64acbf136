/** `.github/SECURITY.md` promises nothing without a test: each row names a file and a title in it. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");
const rows = [
  ...readFileSync(join(ROOT, ".github/SECURITY.md"), "utf8").matchAll(/^\| (.+?) \| `([^`]+\.test\.ts)` "(.+)" \|$/gm),
].map(([, promise, file, title]) => ({ promise, file: file as string, title: title as string }));

test("every row of promises is read here", () => {
  const table = readFileSync(join(ROOT, ".github/SECURITY.md"), "utf8").split("## What is promised")[1] ?? "";
  const lines = table.split("## What is not promised")[0]?.match(/^\| (?!promise|---).*$/gm) ?? [];
  expect(rows.length).toBeGreaterThan(20);
  expect(rows).toHaveLength(lines.length);
});

test.each(rows)("$promise", ({ file, title }) => {
  const path = join(ROOT, file);
  expect(existsSync(path), `${file} is not there`).toBe(true);
  expect(readFileSync(path, "utf8"), `${file} has no test "${title}"`).toContain(`"${title}"`);
});
