/** What the READMEs say is held against the code: commands and options, fields of the target file, links, and the README's length. */
import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { allCommands } from "../src/cli/commands.ts";
import { TARGET_SCHEMA } from "../src/target/target-schema.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const pages = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" })
  .split("\n")
  .filter((path) => path !== "" && !path.startsWith("reports/sample/") && path !== ".github/CHANGELOG.md");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

const commands = new Map((await allCommands()).map((command) => [command.name(), command]));

/** Commands as they are typed on a page: `npx floodgate …`, continued lines joined, what a shell adds left out. */
const typedOn = (page: string): string[] =>
  [
    ...read(page)
      .replaceAll("\\\n", " ")
      .matchAll(/npx floodgate ([^`#\n|]+)/g),
  ].map(([, words]) => (words as string).trim());

const optionsOf = (command: Command): string[] => [
  ...command.options.flatMap(({ long, short }) => [long, short].filter((name) => name != null)),
  ...command.commands.flatMap(optionsOf),
  "--help",
];

test("the first page is at most 150 lines, and its pictures are there", () => {
  expect(read("README.md").split("\n").length).toBeLessThanOrEqual(151);
  for (const [, path] of read("README.md").matchAll(/src(?:set)?="([^"]+)"/g)) {
    expect(existsSync(join(ROOT, path as string)), path).toBe(true);
  }
});

describe.each(pages)("%s", (page) => {
  test("every link leads to a file that is there", () => {
    for (const [, target] of read(page).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
      if (/^https?:/.test(target as string)) continue;
      expect(existsSync(join(ROOT, dirname(page), target as string)), `${page} links to ${target}`).toBe(true);
    }
  });

  test("every command on it is one, with options that it has", () => {
    for (const line of typedOn(page)) {
      const [name = "", ...words] = line.split(/\s+/);
      if (/^[A-Z…]/.test(name) || name.startsWith("--")) continue;
      const command = commands.get(name);
      expect(command, `${page}: npx floodgate ${line}`).toBeDefined();
      const end = words.indexOf("--");
      const typed = (end === -1 ? words : words.slice(0, end)).filter((word) => word.startsWith("--"));
      for (const option of typed) {
        const plain = option.replace(/[=.,;:)].*$/, "");
        expect(optionsOf(command as Command), `${page}: npx floodgate ${line}`).toContain(plain);
      }
    }
  });
});

test("the page of commands has each command with the options of its own", () => {
  const page = read("src/cli/README.md");
  const rows = [...page.matchAll(/^\| `([a-z]+)[^`]*` \|.*$/gm)].map(([row, name]) => ({ row, name: name as string }));
  expect(rows.map(({ name }) => name).sort()).toEqual([...commands.keys()].filter((name) => name !== "help").sort());
  for (const { row, name } of rows) {
    for (const [, option] of row.matchAll(/`(--[a-z-]+)/g)) {
      expect(optionsOf(commands.get(name) as Command), `${name} ${option}`).toContain(option);
    }
  }
});

test("the page of the target file has every field of the schema, and no other", () => {
  const page = read("src/target/README.md");
  const named = [...page.matchAll(/^\| (`[^|]+`) \|/gm)].flatMap(([, cell]) =>
    [...(cell as string).matchAll(/`([a-z_]+)`/g)].map(([, name]) => name),
  );
  expect(named.sort()).toEqual(Object.keys(TARGET_SCHEMA.properties).sort());
});
