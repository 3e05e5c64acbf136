import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import type { RunDocument } from "../history/run-document.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { ENTRY } from "./command.fixture.ts";

const demo = (...args: string[]) => spawnSync(process.execPath, [ENTRY, "demo", ...args], { encoding: "utf8" });
const runs = (): string[] => {
  const folder = join(REPOSITORY, "reports/runs");
  // Other commands, of tests that run meanwhile, leave folders of their own.
  return existsSync(folder) ? readdirSync(folder).filter((name) => name.includes("demo")) : [];
};

test("a planted defect is found by its judge, the healthy platform is not accused, and no file is left", () => {
  const before = runs();
  const { status, stdout, stderr } = demo("admits-one-too-many", "--json");
  expect(stderr).toContain("1 of 1 planted defects found in");
  expect(status).toBe(1);
  const { claims, stages } = JSON.parse(stdout) as RunDocument;
  const failed = claims.filter(({ verdict }) => verdict === "fail").map(({ id }) => id);
  expect(failed).toContain("admits-at-most-the-allowance/admits-one-too-many");
  expect(failed.filter((id) => id.endsWith("-healthy"))).toEqual([]);
  expect(stages.map(({ calls }) => calls.sent > 50)).toEqual([true, true]);
  expect(runs()).toEqual(before);
});

test("--page writes the report's page", () => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-demo-"));
  try {
    const page = join(folder, "demo.html");
    expect(demo("sheds-too-early", "--quiet", "--page", page).stderr).toContain(`The page: ${page}`);
    expect(readFileSync(page, "utf8")).toContain("sheds-only-over-the-cap/sheds-too-early");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
});

test.each([
  [["fails-opn"], "did you mean fails-open?"],
  [["sheds-too-early", "--page", "/nowhere/demo.html"], "--page: /nowhere/demo.html cannot be written (ENOENT)"],
])("%j is answered with a sentence", (args, answer) => {
  const { status, stderr } = demo(...args);
  expect(stderr).toContain(answer);
  expect(status).toBe(2);
});
