/**
 * The house rules that a program can check: who may import whom, purity of the pure floors, names.
 * A message names the file, what it does and the way out, so that nobody has to know this test to obey it.
 */
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";

const ROOT = fileURLToPath(new URL("..", import.meta.url));

/** Folder -> folders it may import from. The one table; what is not listed may not be imported. */
const MAY_IMPORT: Readonly<Record<string, readonly string[]>> = (() => {
  const facts = ["contract", "workload", "history"];
  const deployment = [...facts, "supervision", "target", "client"];
  const judges = ["invariants", "gate", "capacity", "shedding", "trends", "report"];
  return {
    contract: [],
    workload: ["contract"],
    core: ["contract"],
    history: ["contract"],
    invariants: ["history", "contract"],
    gate: [...facts, "invariants"],
    capacity: facts,
    shedding: facts,
    trends: [...facts, "gate"],
    report: [...facts, "invariants", "gate", "capacity", "shedding", "trends"],
    platform: ["core", "contract"],
    supervision: ["contract"],
    tools: ["supervision", "contract", "client"],
    target: [...facts, "supervision"],
    client: [...facts, "supervision", "target"],
    drivers: [...deployment, "invariants"],
    deployments: [...deployment, "platform", "tools"],
    faults: [...deployment, "invariants", "platform", "tools", "drivers", "deployments"],
    verify: [...deployment, "invariants", "tools"],
    stages: [...deployment, ...judges, "drivers", "deployments", "faults", "verify"],
    mutants: ["platform", "core", "contract"],
    simulation: [...deployment, "invariants", "platform", "tools", "deployments", "drivers", "faults", "mutants"],
    trials: [
      ...deployment,
      ...judges,
      "core",
      "platform",
      "tools",
      "deployments",
      "drivers",
      "faults",
      "verify",
      "mutants",
      "simulation",
    ],
    run: [
      ...[...deployment, ...judges, "core", "platform", "tools", "drivers", "faults", "verify"],
      ...["deployments", "stages", "simulation"],
    ],
    bench: [
      ...deployment,
      "gate",
      "shedding",
      "core",
      "platform",
      "drivers",
      "tools",
      "faults",
      "deployments",
      "stages",
      "run",
    ],
    cli: [
      ...[...deployment, ...judges, "platform", "tools", "drivers", "deployments", "faults", "stages", "verify"],
      ...["mutants", "trials", "run", "simulation"],
    ],
    scenarios: ["contract", "workload"],
  };
})();

const PURE = new Set([
  ...["contract", "workload", "core", "history", "invariants"],
  ...["gate", "capacity", "shedding", "trends", "report"],
]);
/** k6 loads these: no packages at all. */
const NO_PACKAGES = new Set(["contract", "workload"]);
const IMPURE_WORDS =
  /\b(Date\.now|new Date\(\)|Math\.random|performance\.now|process\.|setTimeout|setInterval|console\.)/;
const BANNED_NAMES = /^(utils?|helpers?|commons?|types|index|impl|managers?)\.(ts|mjs)$/;

type Source = { path: string; text: string };

/** The room of a file: its folder under src, or `scenarios`. */
const roomOf = (path: string): string => {
  const [first, second] = path.split(sep);
  return first === "src" ? (second as string) : (first as string);
};

const importsOf = (text: string): string[] =>
  [
    ...text.matchAll(
      /(?:^|\n)\s*(?:import|export)\b[^;'"]*?from\s*["']([^"']+)["']|import\(\s*["']([^"']+)["']\s*\)|(?:^|\n)\s*import\s*["']([^"']+)["']/g,
    ),
  ].map((match) => (match[1] ?? match[2] ?? match[3]) as string);

/** Files that exist for tests alone: the product would carry a second deployment, or pass on its strength. */
const isForTests = (path: string): boolean =>
  /\.fixture\.ts$/.test(path) || path.startsWith(join("properties", "second-api") + sep);

/** Where a command prints: masked and clean (`cli/printing.ts`). */
const PRINTS = join("src", "cli", "printing.ts");
/** A program reads what these write, and masks what it shows; or nothing foreign is at hand yet. */
const WRITES_OTHERWISE: readonly string[] = [
  join("src", "supervision", "watchdog.ts"),
  join("src", "drivers", "open-loop", "open-loop-process.ts"),
  join("src", "cli", "floodgate.mjs"),
  join("src", "cli", "install-first.mjs"),
  join("src", "bench") + sep,
];
/** The streams of the process, but for what they are asked and heard; the console; a child's output that is ours unread. */
const WRITES = /\bprocess\.std(?:out|err)\b(?!\.(?:on|columns|isTTY)\b)|\bconsole\.\w+\(|["']inherit["']/;

/** What is wrong with one file, in sentences. Pure, so that a planted breach can be judged without touching the tree. */
const breachesOf = ({ path, text }: Source): string[] => {
  const room = roomOf(path);
  // What only tests load may reach where tests reach.
  const isTest = /\.(?:test|fixture)\.ts$/.test(path);
  const breaches: string[] = [];
  for (const specifier of isTest ? [] : importsOf(text)) {
    if (specifier.startsWith(".")) {
      const target = relative(ROOT, join(ROOT, dirname(path), specifier));
      if (isForTests(target) && !isForTests(path))
        breaches.push(`${path} imports ${target}, which is for tests alone.`);
      const other = roomOf(target);
      if (other === room) continue;
      if (!(MAY_IMPORT[room] ?? []).includes(other)) {
        breaches.push(
          `${path} imports ${target}: ${room} may import ${(MAY_IMPORT[room] ?? []).join(", ") || "nothing"}. ` +
            `Move what both need to a lower floor, or hand it in as a parameter from run/ or cli/.`,
        );
      }
      continue;
    }
    if (NO_PACKAGES.has(room)) {
      breaches.push(
        `${path} imports the package ${specifier}: k6 loads ${room}, which has no packages. Write it in plain ECMAScript.`,
      );
    } else if (PURE.has(room) && specifier.startsWith("node:")) {
      breaches.push(
        `${path} imports ${specifier}: ${room} is pure. Do the I/O in run/ or drivers/ and hand the data in.`,
      );
    } else if (room === "scenarios" && !/^k6(\/|$)/.test(specifier)) {
      breaches.push(
        `${path} imports ${specifier}: a scenario imports k6, src/contract and src/workload, and nothing else.`,
      );
    }
  }
  if (PURE.has(room) && !isTest) {
    const code = text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "");
    const word = IMPURE_WORDS.exec(code)?.[1];
    if (word !== undefined) {
      breaches.push(`${path} uses ${word}: ${room} is pure. Take the time, the seed or the output as a parameter.`);
    }
  }
  if (room === "platform" && /\bmutants?\b/i.test(text.replace(/\/\*[\s\S]*?\*\/|\/\/.*$/gm, "")) && !isTest) {
    breaches.push(
      `${path} speaks of mutants: the platform has no if, flag or header for one. Wrap it from src/mutants.`,
    );
  }
  const mayWrite = path === PRINTS || WRITES_OTHERWISE.some((known) => path === known || path.startsWith(known));
  if (path.startsWith(`src${sep}`) && !isTest && !mayWrite) {
    const written = WRITES.exec(text.replace(/\/\*[\s\S]*?\*\/|(?<![:"'`])\/\/.*$/gm, ""))?.[0];
    if (written !== undefined) {
      breaches.push(
        `${path} uses ${written}: only ${PRINTS} prints, masked and clean. Call it from cli/, or hand the text up.`,
      );
    }
  }
  const name = path.split(sep).at(-1) as string;
  if (BANNED_NAMES.test(name)) {
    breaches.push(`${path}: a file is called by the one thing that it does, not ${name}.`);
  }
  return breaches;
};

/** For each file the shortest way along imports, those of types included, that comes back to it; each circle once. */
const circlesOf = (files: readonly Source[]): string[][] => {
  const paths = new Set(files.map(({ path }) => path));
  const next = new Map(
    files.map(({ path, text }) => [
      path,
      [...new Set(importsOf(text).map((specifier) => join(dirname(path), specifier)))].filter((to) => paths.has(to)),
    ]),
  );
  const found = new Map<string, string[]>();
  for (const start of paths) {
    const ways: string[][] = [[start]];
    const seen = new Set<string>();
    for (const way of ways) {
      const here = next.get(way.at(-1) as string) ?? [];
      if (here.includes(start)) {
        const circle = [...way].sort().join();
        if (!found.has(circle)) found.set(circle, [...way, start]);
        break;
      }
      for (const to of here.filter((one) => !seen.has(one))) {
        seen.add(to);
        ways.push([...way, to]);
      }
    }
  }
  return [...found.values()];
};

const wayOut = (circle: readonly string[]): string =>
  `${circle.join(" -> ")}: none of these can be read or changed alone. Move the type or function that both sides need into a ` +
  "file that imports neither, or hand it in as a parameter.";

/** Files of src that nothing but tests imports, by another name than `.fixture.ts`: they look like the product and are none. */
const testOnlyOf = (files: readonly Source[]): string[] => {
  const importers = new Map<string, string[]>();
  for (const { path, text } of files) {
    for (const specifier of importsOf(text)) {
      const to = join(dirname(path), specifier);
      importers.set(to, [...(importers.get(to) ?? []), path]);
    }
  }
  const isOfTests = (path: string): boolean =>
    /\.test\.ts$/.test(path) || isForTests(path) || path.startsWith(`properties${sep}`);
  return files
    .map(({ path }) => path)
    .filter((path) => !isOfTests(path) && (importers.get(path) ?? []).length > 0)
    .filter((path) => importers.get(path)?.every(isOfTests));
};

const sources = (folder: string): Source[] =>
  readdirSync(join(ROOT, folder), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && /\.(ts|mjs)$/.test(entry.name) && !entry.name.endsWith(".d.ts"))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)))
    .map((path) => ({ path, text: readFileSync(join(ROOT, path), "utf8") }));

describe("the house", () => {
  const all = [...sources("src"), ...sources("scenarios")];

  test("imports go down only, pure floors are pure, files have names of their own", () => {
    expect(all.length).toBeGreaterThan(20);
    expect(all.flatMap(breachesOf)).toEqual([]);
  });

  test("no files import each other in a circle, types included", () => {
    const circles = circlesOf(all);
    expect(circles.map(wayOut)).toEqual([]);
  });

  test("what only tests import is called .fixture.ts, or is not there", () => {
    expect(testOnlyOf([...all, ...sources("properties")])).toEqual([]);
    const made = [
      { path: "src/run/a.ts", text: "" },
      { path: "src/run/b.ts", text: "" },
      { path: "src/run/c.fixture.ts", text: `import { a } from "./a.ts";` },
      { path: "src/run/d.test.ts", text: `import { a } from "./a.ts";\nimport { b } from "./b.ts";` },
      { path: "src/cli/e.ts", text: `import { b } from "../run/b.ts";` },
    ];
    expect(testOnlyOf(made)).toEqual([join("src", "run", "a.ts")]);
  });

  test("every room of src is in the table", () => {
    const rooms = readdirSync(join(ROOT, "src"), { withFileTypes: true }).filter((entry) => entry.isDirectory());
    const unknown = rooms.map((room) => room.name).filter((room) => room !== "native" && !(room in MAY_IMPORT));
    expect(unknown, "a new folder needs a row in MAY_IMPORT").toEqual([]);
  });

  test("a comment or a page names only Markdown files of this clone", () => {
    const tracked = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 24 }).split("\n");
    const known = new Set(
      tracked.filter((path) => path.endsWith(".md")).map((path) => path.split("/").at(-1) as string),
    );
    // Written by runs: `summary.md`. The commits cite what they like.
    const written = new Set(["summary.md"]);
    const reading = tracked.filter((path) => /\.(?:ts|go|mjs|md|yml|sh)$/.test(path) && !path.endsWith("CHANGELOG.md"));
    const cited = reading.flatMap((path) =>
      [...readFileSync(join(ROOT, path), "utf8").matchAll(/(?<![\w/-])(?:[\w.-]+\/)*([\w-]+\.md)\b/g)]
        .map(([, name]) => name as string)
        .filter((name) => !known.has(name) && !written.has(name))
        .map((name) => `${path} names ${name}`),
    );
    expect(cited).toEqual([]);
  });

  test("the top level holds what is fixed and nothing else", () => {
    const allowed = [
      ...["package.json", "package-lock.json", "tsconfig.json", "scenarios", "src", "properties", "reports"],
      ...["docker-compose.yml", "README.md", "LICENSE", "node_modules"],
    ];
    // What a user writes beside it, a target file or a page, is no part of the house.
    const tracked = execFileSync("git", ["ls-files"], { cwd: ROOT, encoding: "utf8", maxBuffer: 1 << 24 }).split("\n");
    const top = new Set(tracked.map((path) => path.split("/")[0] as string));
    expect([...top].filter((name) => !name.startsWith(".") && name !== "" && !allowed.includes(name))).toEqual([]);
  });

  test.each([
    ["an upward import", "src/core/order.ts", `import { x } from "../platform/ports.ts";`, "core may import contract"],
    [
      "a judge that looks into the core",
      "src/invariants/a.ts",
      `import { x } from "../core/order.ts";`,
      "invariants may import",
    ],
    [
      "a product that leans on what is for tests",
      "src/verify/a.ts",
      `import { x } from "../../properties/second-api/start-second-api.ts";`,
      "for tests alone",
    ],
    [
      "a type-only upward import",
      "src/history/a.ts",
      `import type { X } from "../invariants/invariant.ts";`,
      "history may import",
    ],
    ["a package on the floor that k6 loads", "src/contract/a.ts", `import x from "undici";`, "no packages"],
    ["a clock on a pure floor", "src/workload/a.ts", `export const now = () => Date.now();`, "uses Date.now"],
    ["a Node module on a pure floor", "src/report/a.ts", `import { readFile } from "node:fs/promises";`, "is pure"],
    [
      "a scenario that reaches past contract and workload",
      "scenarios/a.ts",
      `import x from "../src/core/order.ts";`,
      "scenarios may import",
    ],
    ["a flag for a mutant in the platform", "src/platform/a.ts", `if (options.mutant) x();`, "speaks of mutants"],
    [
      "a line to the terminal past the one writer",
      "src/cli/a.ts",
      "process.stdout.write(text);",
      "only src/cli/printing",
    ],
    ["a log line", "src/run/a.ts", "console.error(error);", "only src/cli/printing"],
    [
      "a stream handed to a child",
      "src/run/a.ts",
      `spawn("x", [], { stdio: ["ignore", process.stderr] });`,
      "masked and clean",
    ],
    ["a child that writes by itself", "src/run/a.ts", `spawn("x", [], { stdio: "inherit" });`, "masked and clean"],
    ["a drawer of odds and ends", "src/run/utils.ts", ``, "the one thing that it does"],
  ])("%s is caught", (_what, path, text, message) => {
    expect(breachesOf({ path, text }).join("\n")).toContain(message);
  });

  test("a circle is caught, also one of types, and named with the way out", () => {
    const made = [
      { path: "src/run/a.ts", text: `import type { B } from "./b.ts";` },
      { path: "src/run/b.ts", text: `export { c } from "./c/c.ts";` },
      { path: "src/run/c/c.ts", text: `import { readFile } from "node:fs";\nconst a = await import("../a.ts");` },
      { path: "src/run/d.ts", text: `import { a } from "./a.ts";\nimport { c } from "./c/c.ts";` },
    ];
    const circles = circlesOf(made);
    expect(circles).toEqual([["src/run/a.ts", "src/run/b.ts", "src/run/c/c.ts", "src/run/a.ts"]]);
    expect(circles.map(wayOut).join()).toContain("into a file that imports neither");
    expect(circlesOf(made.slice(1))).toEqual([]);
  });
});
