/** What the READMEs say is held against the code: commands and options, fields of the target file, links, and the README's length. */
import { execFileSync } from "node:child_process";
import { cpSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { startCommandsInTurn } from "../src/cli/command.fixture.ts";
import { commandsFor } from "../src/cli/main.ts";
import { withServed } from "../src/deployments/deployment.ts";
import { TARGET_SCHEMA } from "../src/target/target.ts";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const pages = execFileSync("git", ["ls-files", "*.md"], { cwd: ROOT, encoding: "utf8" })
  .split("\n")
  .filter((path) => path !== "" && !path.startsWith("reports/sample/") && path !== ".github/CHANGELOG.md");
const read = (path: string): string => readFileSync(join(ROOT, path), "utf8");

const commands = new Map((await commandsFor()).map((command) => [command.name(), command]));

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

test.each(pages.filter((page) => /^src\/.*README\.md$/.test(page)))("%s is read in a few minutes", (page) => {
  expect(read(page).trimEnd().split("\n").length).toBeLessThanOrEqual(page === "src/README.md" ? 150 : 60);
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

/** Written by a run or a user, not in the clone; and claims, named like a file of a room. */
const NOT_IN_THE_CLONE = /^(?:run|series|stages|ctrf|floodgate\.config)\.json$|^summary\.md$|^verify\/budget$|NAME|\*/;
const tracked = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8" }).split("\n");
const rooms = new Set(tracked.flatMap((path) => dirname(path).split("/")));

/** Paths named on a page: what looks like a source file, or begins with a folder of the clone. */
const pathsOn = (page: string): string[] =>
  [...read(page).matchAll(/`(\.?[\w-][\w./-]*)`/g)]
    .map(([, word]) => word as string)
    .filter(
      (word) => /\.(?:ts|go|mjs|json|md)$/.test(word) || (/\w\/\w/.test(word) && rooms.has(word.split("/")[0] ?? "")),
    )
    .filter((word) => !NOT_IN_THE_CLONE.test(word) && !/^(?:load|k6\/x|reports)\//.test(word));

test.each(pages.filter((page) => /^src\/.*README\.md$/.test(page)))(
  "every path on %s is one of its room, of src or of the clone",
  (page) => {
    const room = page === "src/README.md" ? "src/" : `${dirname(page)}/`;
    const isThere = (path: string): boolean =>
      existsSync(join(ROOT, path)) ||
      existsSync(join(ROOT, "src", path)) ||
      existsSync(join(ROOT, room, path)) ||
      // A file of a folder that was just named: "`planning/needs.ts`, `lacks.ts` there".
      tracked.some((file) => file.startsWith(room) && file.endsWith(`/${path}`));
    expect(pathsOn(page).filter((path) => !isThere(path))).toEqual([]);
  },
);

test("a room of more than a few files has a page; what is for developers stays short", () => {
  const named = [
    ...new Set(tracked.filter((path) => path.startsWith("src/")).map((path) => path.split("/")[1] as string)),
  ];
  const withFiles = named.filter((room) => tracked.some((path) => path.startsWith(`src/${room}/`)));
  expect(withFiles.filter((room) => !pages.includes(`src/${room}/README.md`))).toEqual([]);
  expect(read("src/README.md").split("\n").length).toBeLessThanOrEqual(151);
  // Pages of commands, faults and the target file are for users too.
  const short = pages.filter((page) => /^src\/(?!cli\/|faults\/|target\/).+README\.md$/.test(page));
  expect(short.filter((page) => read(page).split("\n").length > 61)).toEqual([]);
});

/** Words that a page leaves to its reader, and what stands for each here. */
type Stands = (word: string) => string;

/** What is run of a command on a page; `null` where it never ends, has a test of its own, or belongs to those who build Floodgate. */
const toRun = (line: string, stands: Stands): string[] | null => {
  if (/^(?:dev (?!picture)|chaos --watchdog|demo$|…)/.test(line)) return null;
  const [shell = line] = line.split(/ -- | > /);
  const words = (shell.match(/'[^']*'|\S+/g) ?? []).map((word) => stands(word.replace(/^'|'$/g, "")));
  // Nobody's host is asked: the reference platform stands in its place, on loopback.
  const own = words.indexOf("--i-own");
  if (own !== -1) words.splice(own, 2);
  const [name] = words;
  const sends = ["run", "load", "verify", "chaos", "capacity", "gate"].includes(name ?? "");
  const isDry =
    !sends || words.some((word) => ["--dry-run", "--list", "--before", "--operator", "--script"].includes(word));
  return isDry || words.length === 1 ? words : [...words, "--dry-run"];
};

test("every command on a page runs as it is written, on the reference platform, without what it would send", async () => {
  const lines = new Set(pages.flatMap(typedOn));
  const folder = mkdtempSync(join(tmpdir(), "floodgate-readmes-"));
  const inTurn = startCommandsInTurn();
  try {
    await withServed(2, async ([first = "", second = ""]) => {
      const served = JSON.parse(readFileSync(first, "utf8")) as { base_url: string; permits?: object };
      const { base_url } = served;
      // As a deployment that can be broken states it; nothing of it is run.
      const faults = { "limiter.refused": { inject: ["false"], heal: ["true"] } };
      writeFileSync(first, JSON.stringify({ ...served, faults, permits: { ...served.permits, chaos: true } }));
      const sample = join(folder, "20261125T000000Z-chaos-0000");
      cpSync(join(ROOT, "reports/sample"), sample, { recursive: true });
      const script = join(folder, "mine.ts");
      writeFileSync(script, "export default () => {};\n");
      const places: Record<string, string> = {
        ...{ "staging.json": first, "target.json": first, "base.json": first, "head.json": second, FILE: first },
        ...{ "https://maps.example": base_url, URL: base_url, CLAIM: "sheds-above-the-cap", COMMAND: "run" },
        ...{ RUN: sample, "RUN…": sample, A: sample, B: sample, SCENARIO: "smoke", "mine.ts": script },
        DIR: join(folder, "operator"),
      };
      const ran: string[] = [];
      for (const line of lines) {
        const words = toRun(line, (word) => places[word] ?? word)?.map((word, at, all) =>
          all[at - 1] === "--out" ? join(folder, `out-${ran.length}`) : word,
        );
        const needsK6 = words?.some((word) => word === "--operator" || word === "--script") === true;
        if (words === undefined || (needsK6 && !existsSync(join(ROOT, ".tools/k6")))) continue;
        if (words[0] === "dev") words.push("--out", folder);
        const { code, err } = await inTurn.run(words, { cwd: folder });
        expect(err, line).not.toMatch(/\n\s+at /);
        // A script that sends nothing, and one run against itself, decide nothing.
        expect(
          words.includes("--script") || words.includes("--before") ? [0, 4] : [0],
          `npx floodgate ${line}\n${err}`,
        ).toContain(code);
        ran.push(line);
      }
      expect(ran.length).toBeGreaterThan(20);
    });
  } finally {
    inTurn.kill();
    rmSync(folder, { recursive: true, force: true });
  }
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
