import * as files from "node:fs";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { scenarioStage } from "../run/suites/suites.ts";
import { intentOf, prepareTarget } from "./stage-plan.ts";

vi.mock("node:fs", { spy: true });

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
  expect(vi.mocked(files.openSync).mock.calls.filter(([path]) => path === file)).toHaveLength(1);
});

test("keys that would travel in clear beyond loopback are a warning, and on loopback none", async () => {
  const file = join(folder, "target.json");
  const warningsFor = async (base_url: string): Promise<readonly string[]> => {
    const credentials = { server: { key: "env:NOT_READ_HERE" } };
    writeFileSync(
      file,
      JSON.stringify({ schema: "floodgate/target@1", base_url, budget: { requests: 1 }, credentials }),
    );
    return (await prepareTarget(file, ["maps.example"], { load: false, faults: false, requests: 1 })).warnings;
  };
  expect(await warningsFor("http://maps.example/v1")).toEqual([
    expect.stringMatching(/^base_url is plain http.*clear/),
  ]);
  expect(await warningsFor("https://maps.example/v1")).toEqual([]);
  expect(await warningsFor("http://127.1:1/v1")).toEqual([]);
});
