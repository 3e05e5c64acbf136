import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { claimOf } from "../../history/claim.fixture.ts";
import type { Claim, RunDocument } from "../../history/run-document.ts";
import { madeRun } from "../../report/made-run.fixture.ts";
import { compareRuns, compareWithBaseline, readFigures, saveBaseline } from "./run-gate.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-gate-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

type About = Partial<Pick<RunDocument, "target" | "commit" | "calibration">> & { lengthS?: number };
const TARGET = { name: "staging", base_url: "https://maps.example/v1", embedded: false };

const write = (
  name: string,
  latencyMs: number,
  claims: Claim[] = [claimOf("counts-agree/load")],
  { lengthS = 15, ...about }: About = {},
): string => {
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  const environment = { node: "26.1.0", k6: null, toxiproxy: null, os: "Linux", cores: 2, cpu: "some", host_notes: [] };
  const measured = (of: string, value: number, unit: string) => {
    return { name: of, stage: "load", value, unit, low: null, high: null, n: 9 };
  };
  const calls = { sent: 9, answered: 9, refused: 0, indeterminate: 0 };
  const run = {
    ...madeRun({ calibration: [], faults: [] }),
    id: name,
    profile: "smoke",
    environment,
    claims,
    stages: [{ name: "load", driver: "k6", duration_ms: lengthS * 1000, calls, by_outcome: { 200: 9 } }],
    measurements: [measured("latency_ms_p50", latencyMs, "ms"), measured("offered_rate", 20, "1/s")],
    ...{ target: TARGET, commit: "2dd9bd4c", ...about },
  };
  writeFileSync(join(path, "run.json"), JSON.stringify(run));
  return path;
};

const many = (name: string, ms: number): string[] =>
  Array.from({ length: 6 }, (_, n) => write(`${name}${n}`, ms + n / 10));

describe("the gate on recorded runs", () => {
  test("reads run folders and compares them", () => {
    const [was, same, slow] = [many("was", 100), many("same", 100), many("slow", 120)];
    expect(compareRuns(was, same).verdict).toBe("no-regression");
    expect(compareRuns(was, slow).verdict).toBe("regression");
  });

  test("compares no time of a run whose generator failed its calibration, and says so", () => {
    const failed = (name: string, driver: string, measured: number) => {
      const check = {
        name: `${driver}: known delay, p50`,
        driver,
        truth: 50,
        measured,
        unit: "ms",
        verdict: "fail" as const,
      };
      return write(name, 120, undefined, { calibration: [check] });
    };
    const [was, slow] = [many("before", 100), many("after", 120)];
    for (const [runs, verdict] of [
      [[failed("by-k6", "k6", 95), ...slow.slice(1)], "inconclusive"],
      [[failed("by-another", "open-loop", 95), ...slow.slice(1)], "regression"],
      [[failed("by-little", "k6", 51), ...slow.slice(1)], "regression"],
    ] as const) {
      const found = compareRuns(was, runs);
      expect(found.verdict).toBe(verdict);
      const said = found.reasons.filter((one) =>
        /^measured by a generator that failed.*: by-k6 \(calibration: /.test(one),
      );
      expect(said).toHaveLength(verdict === "inconclusive" ? 1 : 0);
    }
  });

  test("says that runs are of two targets, or by two revisions, and decides nothing by it", () => {
    const was = many("one-target", 100);
    const about = { target: { ...TARGET, base_url: "https://other.example/v1" }, commit: "fd1a8008" };
    const is = Array.from({ length: 6 }, (_, n) => write(`other${n}`, 100 + n / 10, undefined, about));
    const { verdict, reasons } = compareRuns(was, is);
    expect(verdict).toBe("no-regression");
    expect(reasons).toContain("of two targets: https://maps.example/v1 before, https://other.example/v1 after");
    expect(reasons.at(-1)).toMatch(/two revisions of Floodgate.*: 2dd9bd4c before, fd1a8008 after; .*report RUN/);
    expect(compareRuns(was, many("same-target", 100)).reasons).toEqual(["nothing is worse than allowed"]);
  });

  test("says that a stage was played for another length, where it was more than half longer", () => {
    const of = (name: string, lengthS: number): string[] =>
      Array.from({ length: 6 }, (_, n) => write(`${name}${n}`, 100 + n / 10, undefined, { lengthS }));
    const { verdict, reasons } = compareRuns(of("short", 3), of("long", 15));
    expect(verdict).toBe("no-regression");
    expect(reasons).toContain("played for other lengths: load (3 s before, 15 s after)");
    expect(compareRuns(of("one", 15), of("other", 16)).reasons).toEqual(["nothing is worse than allowed"]);
  });

  test("keeps a baseline with its reason, and compares with it later", async () => {
    const file = join(folder, "baselines", "smoke.json");
    await saveBaseline(file, many("kept", 100), "the first release");
    expect(JSON.parse(readFileSync(file, "utf8"))).toMatchObject({
      schema: "floodgate/baseline@1",
      reason: "the first release",
    });
    expect(compareWithBaseline(file, many("later", 100)).verdict).toBe("no-regression");
    expect(compareWithBaseline(file, many("slower", 120)).verdict).toBe("regression");
  });

  test("a baseline that is missing or none decides nothing, and says how to write one", () => {
    const [run] = many("alone", 100) as [string, ...string[]];
    const found = compareWithBaseline(join(folder, "nowhere.json"), [run]);
    expect(found.verdict).toBe("inconclusive");
    expect(found.reasons[0]).toMatch(/there is no baseline .* --save-baseline/);
    expect(compareWithBaseline(join(run, "run.json"), [run]).reasons[0]).toMatch(/is no baseline: its schema/);
  });

  test("a folder that is no run, or a run that was cut off, is a mistake with a sentence", () => {
    expect(() => readFigures(folder)).toThrow(/is no file of a run: .*name a folder under reports\/runs/);
    const cut = write("cut", 1, [
      claimOf("run/completed", { stage: "load", verdict: "inconclusive", reason: "stopped by SIGINT" }),
    ]);
    expect(() => readFigures(cut)).toThrow(/did not come to its end: stopped by SIGINT/);
  });
});
