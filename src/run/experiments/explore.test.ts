/** The random search as a user types it: a planted mutant is found, made short, written down and played again. */
import { existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { runCommand } from "../../cli/command.fixture.ts";
import type { RunDocument } from "../../history/run-document.ts";
import type { ScheduleCrash } from "../../simulation/search-schedules.ts";

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-explore-"));
});
afterAll(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

const floodgate = (...args: string[]) => runCommand(args);

test("a mutant: exit 1, a crash file that fails again, and holds on the healthy platform", async () => {
  const out = await mkdtemp(join(folder, "mutant-"));
  const found = await floodgate(
    "dev",
    "simulate",
    "--mutant",
    "fails-open",
    ...["--schedules", "1", "--seed", "1", "--out", out],
  );
  expect(found.code, found.said).toBe(1);
  const document = JSON.parse(readFileSync(join(out, "run.json"), "utf8")) as RunDocument;
  expect(document.claims.find(({ id }) => id === "fails-closed/explore-1")?.verdict).toBe("fail");
  const file = join(out, "crashes/explore-1.json");
  const crash = JSON.parse(readFileSync(file, "utf8")) as ScheduleCrash;
  expect(crash.schedule.events.length).toBeLessThanOrEqual(3);
  expect(crash.curl).toContain("$CREDENTIAL");

  const again = await floodgate("dev", "replay", file);
  expect(again.code, again.said).toBe(1);
  expect(again.said).toContain("failing: ");
  const healthy = join(folder, "healthy.json");
  writeFileSync(healthy, JSON.stringify({ ...crash, mutant: null }));
  const fixed = await floodgate("dev", "replay", healthy);
  expect(fixed.code, fixed.said).toBe(0);

  const judged = await floodgate("report", out);
  expect(judged.said).toContain("every claim as the run wrote it");
});

test("the healthy platform: exit 0, and nothing written that nobody needs", async () => {
  const out = await mkdtemp(join(folder, "healthy-"));
  const { code, said } = await floodgate("chaos", "--explore", "--for", "2s", "--seed", "5", "--out", out);
  expect(code, said).toBe(0);
  expect(said).toContain("nothing failed in any of them");
  expect(existsSync(join(out, "crashes"))).toBe(false);
});
