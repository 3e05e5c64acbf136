import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { DEFECTS } from "./defects.ts";
import { VARIANTS } from "./variants.ts";

const LISTS = ["defects.ts", "variants.ts", "names.test.ts"];

const textOf = (folder: string, fits: (name: string) => boolean): string =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((name) => fits(name) && !LISTS.some((list) => name.endsWith(list)))
    .map((name) => readFileSync(join(folder, name), "utf8"))
    .join("\n");

/** Made from a list of options and from states of a key. */
const COMPOSED = /^(control-refuses|serves)-/;

test.each([
  ["defect", DEFECTS],
  ["variant", VARIANTS],
] as const)("every %s is listed once, asked for in a part and tried by a test", (_, names) => {
  const parts = textOf(import.meta.dirname, (name) => name.endsWith(".ts"));
  const tests = textOf(join(import.meta.dirname, "../../src/verify"), (name) => name.endsWith(".test.ts"));
  expect(new Set<string>(names).size).toBe(names.length);
  expect(names.filter((name) => !COMPOSED.test(name) && !parts.includes(`"${name}"`))).toEqual([]);
  expect(names.filter((name) => !tests.includes(`"${name}"`))).toEqual([]);
});
