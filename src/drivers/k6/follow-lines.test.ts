import { appendFile, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { followLines } from "./k6-process.ts";

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-test-"));
});
afterEach(() => rm(folder, { recursive: true }));

test("lines are seen while the file is written, whole ones only, and the rest at the end", async () => {
  const path = join(folder, "lines");
  await writeFile(path, "");
  const seen: string[] = [];
  const written = Promise.withResolvers<void>();
  const following = followLines(path, (line) => seen.push(line), written.promise);
  const bytes = Buffer.from("one\ntwö\nthr");
  // The cut goes through a letter.
  await appendFile(path, bytes.subarray(0, 7));
  await vi.waitFor(() => expect(seen).toEqual(["one"]), 30_000);
  await appendFile(path, bytes.subarray(7));
  await vi.waitFor(() => expect(seen).toEqual(["one", "twö"]), 30_000);
  await appendFile(path, "ee\nhalf");
  written.resolve();
  await following;
  expect(seen).toEqual(["one", "twö", "three", "half"]);
});

test("what is written just before the end is not lost, however much it is", async () => {
  const path = join(folder, "lines");
  await writeFile(path, "");
  const seen: string[] = [];
  const written = Promise.withResolvers<void>();
  const following = followLines(path, (line) => seen.push(line), written.promise);
  const lines = Array.from({ length: 50_000 }, (_, i) => `${i} ${"x".repeat(i % 50)}`);
  await appendFile(path, `${lines.join("\n")}\n`);
  written.resolve();
  await following;
  expect(seen).toEqual(lines);
});

test("a reader that throws is reported at the end", async () => {
  const path = join(folder, "lines");
  await writeFile(path, "one\n");
  const boom = (): void => {
    throw new Error("boom");
  };
  await expect(followLines(path, boom, Promise.resolve())).rejects.toThrow("boom");
});
