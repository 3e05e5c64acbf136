/** Nights in a folder: added by processes, as jobs of a CI do, and read again. */
import { appendFileSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { madeNight } from "../trends/nights.fixture.ts";
import { monthFile, type Night } from "../trends/nights.ts";
import { runCommand } from "./command.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-trends-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

/** A run folder of which `trends add` reads one file. */
const run = (night: object, name = "night.json"): string => {
  const path = mkdtempSync(join(folder, "run-"));
  writeFileSync(join(path, name), JSON.stringify(night));
  return path;
};
const add = (path: string, dir: string, ...more: string[]) =>
  runCommand(["trends", "add", path, "--dir", dir, ...more]);
const kept = (dir: string): Night[] =>
  readdirSync(dir)
    .sort()
    .flatMap((name) => readFileSync(join(dir, name), "utf8").split("\n"))
    .filter((line) => line.startsWith("{") && line.endsWith("}"))
    .map((line) => JSON.parse(line));

test("nights that are added at once are all kept, a file a month; one that is there already changes nothing", async () => {
  const dir = join(folder, "at-once", "nights");
  const days = [0, 1, 2, 29, 30, 31];
  const all = await Promise.all(days.map((day) => add(run(madeNight(day, { left_out: 1 })), dir)));
  expect(all.map(({ code, err }) => [code, err])).toEqual(days.map(() => [0, ""]));
  expect(readdirSync(dir).sort()).toEqual(["2026-09.ndjson", "2026-10.ndjson"]);
  expect(
    kept(dir)
      .map(({ seed }) => seed)
      .sort((a, b) => a - b),
  ).toEqual(days);
  const again = await add(run(madeNight(2, { verdict: "fail" })), dir);
  expect([again.code, again.out]).toEqual([0, expect.stringContaining("already")]);
  expect(kept(dir)).toHaveLength(days.length);
});

test("a cut line and a foreign file are named and left as they are; the next night gets a line of its own", async () => {
  const dir = join(folder, "cut");
  await add(run(madeNight(1)), dir);
  appendFileSync(join(dir, "2026-09.ndjson"), '{"schema":"floodgate/night@1","id":"2026');
  writeFileSync(join(dir, "notes.txt"), "mine");
  const { code, err } = await add(run(madeNight(2, { verdict: "fail" })), dir, "--commit", "v1.2-rc");
  expect(code).toBe(0);
  expect(err).toContain("2026-09.ndjson, line 2");
  expect(err).toContain("notes.txt");
  expect(readFileSync(join(dir, "notes.txt"), "utf8")).toBe("mine");
  expect(kept(dir).map(({ seed, verdict, deployed }) => [seed, verdict, deployed])).toEqual([
    [1, "pass", undefined],
    [2, "fail", "v1.2-rc"],
  ]);
});

test.each([
  ["a run of another schema", () => run({ ...madeNight(1), schema: "floodgate/night@2" }), "floodgate/night@2"],
  ["a folder without a night", () => run({}, "run.json"), "npx floodgate report RUN"],
  ["no folder", () => join(folder, "absent"), "npx floodgate report RUN"],
])("%s is a mistake of the user, and nothing is written", async (_what, path, said) => {
  const dir = join(folder, "nothing");
  const { code, err } = await add(path(), dir);
  expect([code, err]).toEqual([2, expect.stringContaining(said)]);
  expect(() => readdirSync(dir)).toThrow("ENOENT");
});

test("a folder that is a file, a month that is a folder, and a missing --dir are said", async () => {
  const file = join(run(madeNight(1)), "night.json");
  const dir = join(folder, "odd");
  mkdirSync(join(dir, "2026-09.ndjson"), { recursive: true });
  const all = await Promise.all([add(file, file), add(file, dir), runCommand(["trends", "add", file])]);
  expect(all.map(({ code }) => code)).toEqual([2, 2, 2]);
  expect(all[1]?.err).toContain(join(dir, "2026-09.ndjson"));
  expect(all[2]?.err).toContain("--dir DIR");
});

const filled = (name: string, nights: readonly Night[]): string => {
  const dir = join(folder, name);
  mkdirSync(dir);
  for (const night of nights) appendFileSync(join(dir, monthFile(night)), `${JSON.stringify(night)}\n`);
  return dir;
};
const doubling = Array.from({ length: 20 }, (_, day) => {
  const value = (day < 12 ? 100 : 200) + (day % 3);
  return madeNight(day, { measurements: { "steady-mix/latency_ms_p50": [value, null, null, 900] } });
});

test("what got worse comes first in 80 columns, is warned of, and fails nothing", async () => {
  const rare = { "steady-mix/ttfe_ms_p50": [20, null, null, 90] };
  const dir = filled(
    "worse",
    doubling.map((one, day) => (day > 17 ? { ...one, measurements: { ...one.measurements, ...rare } } : one)),
  );
  const [shown, json] = await Promise.all([
    runCommand(["trends", "show", "--dir", dir]),
    runCommand(["trends", "show", "--dir", dir, "--json"]),
  ]);
  expect([shown.code, json.code]).toEqual([0, 0]);
  expect(shown.out).toMatch(/WORSE steady-mix\/latency_ms_p50 +101 +201 +\+99 %/);
  expect(shown.out).toContain("npx floodgate gate --base c000011.json --head c000012.json");
  expect(Math.max(...shown.out.split("\n").map(({ length }) => length))).toBeLessThanOrEqual(80);
  expect(shown.out).toMatch(/ttfe_ms_p50 +20 +20 +too few: 2\n/);
  expect(shown.err).toContain("warning");
  const [figure] = JSON.parse(json.out).figures;
  expect(figure).toMatchObject({
    figure: "steady-mix/latency_ms_p50",
    worse: "higher",
    changes: [{ to: { commit: "c000012" } }],
  });
});

test("too few nights are said, and fail nothing; no nights and no folder are a mistake", async () => {
  const all = await Promise.all(
    [filled("few", doubling.slice(0, 11)), filled("none", []), join(folder, "absent")].map((dir) =>
      runCommand(["trends", "show", "--dir", dir]),
    ),
  );
  expect(all.map(({ code }) => code)).toEqual([0, 2, 2]);
  expect(all[0]?.out).toContain("Too few");
  expect(all[0]?.err).not.toContain("warning");
});

test("other tools get the nights that are compared, of each figure its direction", async () => {
  const some = doubling.map((night, day) => ({
    ...night,
    verdict: day === 3 ? ("fail" as const) : night.verdict,
    measurements: {
      ...night.measurements,
      "curve/goodput_retention": [0.9, 0.8, 1, 90],
      ...(day === 5 ? {} : { "curve/knee_rps": [70, null, null, 90] }),
    },
  }));
  const dir = filled("exported", some);
  const formats = [["otava"], ["benchmark-action"], ["benchmark-action", "--bigger"], []];
  const [otava, smaller, bigger, none] = await Promise.all(
    formats.map(([name, ...more]) =>
      runCommand(["trends", "export", "--dir", dir, ...(name === undefined ? [] : ["--format", name]), ...more]),
    ),
  );
  const rows = JSON.parse(otava?.out ?? "");
  expect(rows).toHaveLength(19);
  expect(rows[0]).toEqual({
    timestamp: Date.UTC(2026, 8, 1, 2) / 1000,
    attributes: { id: some[0]?.id, commit: "c000000" },
    metrics: [
      { name: "steady-mix/latency_ms_p50", value: 100, unit: "ms", direction: -1 },
      { name: "curve/goodput_retention", value: 0.9, unit: "ratio", direction: 1 },
    ],
  });
  expect(otava?.err).toContain("curve/knee_rps");
  const extra = `${some[19]?.id}, c000019`;
  expect(JSON.parse(smaller?.out ?? "")).toEqual([
    { name: "steady-mix/latency_ms_p50", unit: "ms", value: 201, extra },
  ]);
  expect(JSON.parse(bigger?.out ?? "")).toEqual([
    { name: "curve/goodput_retention", unit: "ratio", value: 0.9, range: "0.8 to 1", extra },
    { name: "curve/knee_rps", unit: "1/s", value: 70, extra },
  ]);
  expect(none?.code).toBe(2);
});
