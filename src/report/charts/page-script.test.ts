import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { PAGE_SCRIPT, PAGE_SCRIPT_HASH } from "../page/page-shell.ts";

test("the policy names this script and no other, and it is small", () => {
  expect(PAGE_SCRIPT_HASH).toBe(`sha256-${createHash("sha256").update(PAGE_SCRIPT).digest("base64")}`);
  expect(PAGE_SCRIPT.length).toBeLessThanOrEqual(8 * 1024);
  expect(PAGE_SCRIPT).not.toMatch(/<\/?script|eval|Function|innerHTML|fetch|import\(/);
});
