import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { namesOf, PARTS } from "./names.ts";

const VERIFY = join(import.meta.dirname, "../../src/verify");

test("every name that a part asks for is tried by a test, and no other is taken", () => {
  const asked = [
    ...PARTS.matchAll(/(?<!query\.)\b(?:is|has)\("([^"]+)"\)/g),
    // Tables by name: what stumbles over what, and members that have another name.
    ...PARTS.matchAll(/^ {2}"([\w-]+-[\w-]+)": [([]/gm),
  ].map(([, name]) => name as string);
  const tests = readdirSync(VERIFY, { recursive: true, encoding: "utf8" })
    .filter((file) => file.endsWith(".test.ts"))
    .map((file) => readFileSync(join(VERIFY, file), "utf8"))
    .join("\n");
  expect(new Set(asked).size).toBeGreaterThan(300);
  expect([...new Set(asked)].filter((name) => !tests.includes(`"${name}"`))).toEqual([]);
  expect(() => namesOf([], ["no-such-defect"])).toThrow(/asks for "no-such-defect"/);
});
