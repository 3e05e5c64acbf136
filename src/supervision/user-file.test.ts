import { execFileSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { parseUserJson, readUserFile, readUserJson, UserFileError, WRITTEN_BOUNDS } from "./user-file.ts";

const folder = mkdtempSync(join(tmpdir(), "floodgate-user-file-"));
afterAll(() => rmSync(folder, { recursive: true }));

const written = (name: string, text: string): string => {
  const path = join(folder, name);
  writeFileSync(path, text);
  return path;
};

const saidOf = (read: () => unknown): string => {
  try {
    read();
  } catch (error) {
    expect(error).toBeInstanceOf(UserFileError);
    return (error as Error).message;
  }
  return "nothing";
};

describe("a file that a user names", () => {
  test.each<[what: string, path: () => string, found: RegExp]>([
    [
      "a pipe that nobody writes to",
      () => {
        execFileSync("mkfifo", [join(folder, "pipe")]);
        return join(folder, "pipe");
      },
      /it is a named pipe, not a file/,
    ],
    ["a device that never ends", () => "/dev/zero", /it is a device, not a file/],
    ["a folder", () => folder, /it is a folder, not a file/],
    ["nothing", () => join(folder, "nowhere"), /there is no such file/],
    ["a place below a file", () => join(written("file", ""), "x"), /reading it failed \(ENOTDIR\)/],
    [
      "fifty megabytes of one name",
      () => written("long", `{"name":"${"n".repeat(50 << 20)}"}`),
      /it has 5\d{7} bytes; at most \d+ are read/,
    ],
    [
      "one name of a megabyte",
      () => written("name", `{"name":"${"n".repeat(1 << 20)}"}`),
      /a text in it has more than 65536 characters/,
    ],
    [
      "a hundred thousand levels",
      () => written("deep", `${"[".repeat(100_000)}${"]".repeat(100_000)}`),
      /nested more than 64 levels deep/,
    ],
    [
      "half a million tenants",
      () => written("many", `{"tenants":[${'{"org":"a"},'.repeat(500_000)}{}]}`),
      /it holds more than 250000 values/,
    ],
    [
      "a list with a comma too many",
      () => written("comma", '{\n  "key": "svc_sk_live_0123456789abcdef",\n}'),
      /it breaks off at line 3, column 1: the comma before the closing bracket is one too many/,
    ],
    [
      "one with a comment",
      () => written("comment", '{ // hello\n"key": "svc_sk_live_0123456789abcdef"}'),
      /it breaks off at line 1, column 3: JSON has no comments, no trailing commas, and names in double quotes/,
    ],
    ["nothing at all", () => written("blank", " \n"), /^it is empty$/],
    [
      "what PowerShell writes by >",
      () => {
        writeFileSync(join(folder, "wide"), Buffer.from('\uFEFF{"key": "svc_sk_live_0123456789abcdef"}', "utf16le"));
        return join(folder, "wide");
      },
      /^it is UTF-16; save it as UTF-8$/,
    ],
    [
      "a text that is not closed",
      () => written("open", '{"key": "svc_sk_live_0123456789abcdef"'),
      /it breaks off at its end: a bracket or a quotation mark is not closed/,
    ],
    [
      "half a text",
      () => written("half", '{"key": "svc_sk_live_0123456789abcdef'),
      /it is not JSON: it breaks off at its end/,
    ],
  ])("is %s: a clause at once, and nothing of what it holds", (_what, path, found) => {
    const named = path();
    const began = performance.now();
    const said = saidOf(() => readUserJson(named));
    expect(said).toMatch(found);
    expect(said).not.toContain("0123456789abcdef");
    // Bounded by what is read, whatever the file holds; a machine that stands still meanwhile is no reason to fail.
    expect(performance.now() - began).toBeLessThan(10_000);
  });

  test("is read whole where it is within bounds: one that states no size, one with a byte order mark", () => {
    expect(readUserFile("/proc/self/status", 1 << 20)).toContain("Name:");
    expect(readUserJson(written("bom", '\uFEFF{"a":"[[[\\\\\\"[[["}'))).toEqual({ a: '[[[\\"[[[' });
    mkdirSync(join(folder, "sub"));
    expect(readUserFile(written("sub/empty", ""), 10)).toBe("");
  });

  test("brackets, commas and quotes inside of a text are none of its notation", () => {
    const text = JSON.stringify({ a: `${"[{,".repeat(2_000)}"\\`, b: Array.from({ length: 60 }, () => ({ c: [] })) });
    expect(parseUserJson(text, { ...WRITTEN_BOUNDS, maxDepth: 4, maxValues: 200 })).toEqual(JSON.parse(text));
    expect(saidOf(() => parseUserJson(text, { ...WRITTEN_BOUNDS, maxDepth: 3 }))).toMatch(/more than 3 levels/);
    expect(saidOf(() => parseUserJson(text, { ...WRITTEN_BOUNDS, maxValues: 100 }))).toMatch(/more than 100 values/);
  });
});
