import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { findRedis, ToolError } from "./tool-recipe.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "floodgate-redis-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const named = (says: string): NodeJS.ProcessEnv => {
  const path = join(folder, "redis-server");
  writeFileSync(path, `#!/bin/sh\necho '${says}'\n`);
  chmodSync(path, 0o755);
  return { FLOODGATE_REDIS: path };
};

test("a redis-server is known by what it says of itself", async () => {
  const tool = await findRedis(named("Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc bits=64"));
  expect(tool.version).toBe("7.0.15");
});

test.each([
  ["Redis server v=5.0.3 sha=0", "expected redis-server 6 or later"],
  ["something else", 'printed "something else"'],
])("%s is refused with what to do", async (says, why) => {
  const error = await findRedis(named(says)).catch((thrown: Error) => thrown);
  expect(error).toBeInstanceOf(ToolError);
  expect(String(error)).toContain(why);
});

test("where there is none the sentence says how to get one", async () => {
  await expect(findRedis({ FLOODGATE_REDIS: join(folder, "none") })).rejects.toThrow("apt-get install redis-server");
});
