import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { commitOf, finishedNow } from "./run-reports.ts";

test("the commit under test is read without writing to the user's repository", async () => {
  const folder = mkdtempSync(join(tmpdir(), "floodgate-commit-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  const git = (...args: string[]) => execFileSync("git", ["-C", folder, ...args], { encoding: "utf8" }).trim();
  const file = join(folder, "file");
  git("init", "--quiet");
  writeFileSync(file, "as committed");
  git("add", "file");
  git("-c", "user.name=a", "-c", "user.email=a@b.example", "commit", "--quiet", "--message", "one");
  // The index holds another time of this file, and `git status` alone would correct it there.
  utimesSync(file, 1, 1);
  const index = readFileSync(join(folder, ".git/index"));
  const commit = git("rev-parse", "--short=12", "HEAD");
  expect(await commitOf(folder)).toBe(commit);
  expect(readFileSync(join(folder, ".git/index"))).toEqual(index);
  writeFileSync(file, "otherwise");
  expect(await commitOf(folder)).toBe(`${commit}+`);
});

test("a run does not end before it began where the wall clock is set back meanwhile", () => {
  const begunMs = Date.now();
  expect(finishedNow(begunMs - 3_600_000).getTime()).toBeGreaterThan(begunMs - 60_000);
  const laterMs = begunMs + 3_600_000;
  expect(finishedNow(laterMs).getTime()).toBe(laterMs);
});
