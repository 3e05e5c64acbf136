import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import * as files from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { prepareTarget } from "./prepare-target.ts";
import { intentOf } from "./stages/stages-for.ts";
import { scenarioStage } from "./suites/scenario.ts";

vi.mock("node:fs/promises", { spy: true });

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-prepare-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

test("a target file is read once, also where the guard's question follows from what stands in it", async () => {
  const file = join(folder, "target.json");
  const target = {
    schema: "floodgate/target@1",
    base_url: "http://127.0.0.1:1/v1",
    credentials: { server: { key: "env:NOT_READ_HERE" } },
  };
  writeFileSync(file, JSON.stringify(target));
  const stage = scenarioStage("catalog-reads", { ratePerS: 5, durationS: 2 });
  const prepared = await prepareTarget(file, [], intentOf({ stages: () => [stage!], short: false }));
  expect(prepared.target.base_url).toBe(target.base_url);
  expect(vi.mocked(files.readFile).mock.calls.filter(([path]) => path === file)).toHaveLength(1);
});
