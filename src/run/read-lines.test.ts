import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { madeRun } from "../report/made-run.fixture.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { UsageError } from "../supervision/user-file.ts";
import { jsonLines, recordedRun, textBlocks } from "./read-run.ts";

let folder: string;
let path: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-lines-"));
  path = join(folder, "lines.ndjson");
});
afterEach(() => rmSync(folder, { recursive: true }));

test("lines over the end of a block come whole, with letters of several bytes", () => {
  const lines = Array.from({ length: 4_000 }, (_, n) => ({ n, text: "ä€😀".repeat(100) }));
  writeFileSync(path, lines.map((line) => `${JSON.stringify(line)}\n`).join(""));
  expect([...jsonLines(path)]).toEqual(lines);
  expect([...textBlocks(path)].length).toBeGreaterThan(2);
});

test("a line longer than a block comes whole", () => {
  const line = { text: "x".repeat(3_000_000) };
  writeFileSync(path, `${JSON.stringify(line)}\n{"n":2}\n`);
  expect([...jsonLines(path)]).toEqual([line, { n: 2 }]);
});

test("half a last line is no line, and is still text", () => {
  writeFileSync(path, '{"n":1}\n{"n":');
  expect([...jsonLines(path)]).toEqual([{ n: 1 }]);
  expect([...textBlocks(path)].join("")).toBe('{"n":1}\n{"n":');
});

test("a part of a file is read from its first byte to its last", () => {
  writeFileSync(path, '{"n":1}\n{"n":2}\n{"n":3}\n');
  expect([...jsonLines(path, 8, 16)]).toEqual([{ n: 2 }]);
  expect([...jsonLines(path, 24)]).toEqual([]);
});

test("a run is read, and any other document is refused with the member that it lacks", () => {
  const read = (value: unknown) => {
    writeFileSync(path, JSON.stringify(value));
    return recordedRun(path);
  };
  expect(read(madeRun())).toEqual(madeRun());
  expect(recordedRun(join(REPOSITORY, "reports/sample/run.json")).claims.length).toBeGreaterThan(1);
  const needed = ["schema", "id", "target", "environment", "stages", "claims", "measurements", "faults", "verdict"];
  for (const name of needed) expect(() => read({ ...madeRun(), [name]: null })).toThrow(name);
  for (const other of [null, [], "text", 1, {}]) expect(() => read(other)).toThrow(UsageError);
  expect(() => read({ ...madeRun(), claims: [null] })).toThrow("claims[0]");
  expect(() => read({ ...madeRun(), schema: "floodgate/run@2" })).toThrow("another version");
});

test.each(["null", "1", "[]"])("%s is no line of a run", (line) => {
  writeFileSync(path, `${line}\n`);
  expect(() => [...jsonLines(path)]).toThrow("no JSON object");
});
