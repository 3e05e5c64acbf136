/**
 * docker-compose.yml cannot be run where there is no container engine. So its form is checked against the schema of the
 * Compose Specification, what it copies into the image against `.dockerignore`, and its commands are run as plain processes
 * (compose-run.test.ts).
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DCLinter } from "dclint";
import { describe, expect, test } from "vitest";

const ROOT = join(import.meta.dirname, "..");
const COMPOSE_PATH = join(ROOT, "docker-compose.yml");
const composeText = readFileSync(COMPOSE_PATH, "utf8");
const SECRETS = ["FLOODGATE_SESSION_SECRET", "FLOODGATE_ADMIN_SECRET", "FLOODGATE_CONTROL_TOKEN"];

/** What the schema and the linter's rules of substance find; rules about the order of keys are left out. */
const findings = (path: string): string[] => {
  const linter = new DCLinter({
    rules: {
      "no-duplicate-container-names": 2,
      "no-duplicate-exported-ports": 2,
      "no-unbound-port-interfaces": 2,
      "no-version-field": 2,
      "require-project-name-field": 2,
    },
    quiet: true,
    debug: false,
    exclude: [],
  });
  // The linter's own types do not resolve under Node's rules.
  const results: { messages: { rule: string; line: number; message: string }[] }[] = linter.lintFiles([path], false);
  const substance = (rule: string): boolean => !/order|quotes|build-and-image|explicit-tag|name-regex/.test(rule);
  return results
    .flatMap(({ messages }) => messages)
    .filter(({ rule }) => substance(rule))
    .map(({ rule, line, message }) => `${line} ${rule}: ${message}`);
};

const composePlugin = spawnSync("docker", ["compose", "version"], { stdio: "ignore" }).status === 0;
if (!composePlugin) process.stderr.write("SKIPPED: no `docker compose`; the file is judged by its schema alone\n");

describe("docker-compose.yml", () => {
  test("is a file of the Compose Specification", () => {
    expect(findings(COMPOSE_PATH)).toEqual([]);
  });

  test.each([
    ["an unknown field", "read_only: true", "read_onlyy: true"],
    ["a word that it does not know", "pull_policy: build", "pull_policy: sometimes"],
    ["a port for everybody", '- "127.0.0.1:', '- "'],
  ])("and the check bites: %s", (_what, right, wrong) => {
    const folder = mkdtempSync(join(tmpdir(), "floodgate-compose-"));
    try {
      const path = join(folder, "docker-compose.yml");
      expect(composeText).toContain(right);
      writeFileSync(path, composeText.replace(right, wrong));
      expect(findings(path)).not.toEqual([]);
    } finally {
      rmSync(folder, { recursive: true });
    }
  });

  test.skipIf(!composePlugin).each(["limiter", "redis"])("is taken by docker compose itself, profile %s", (profile) => {
    const asked = spawnSync("docker", ["compose", "--file", COMPOSE_PATH, "--profile", profile, "config", "--quiet"], {
      env: { ...process.env, ...Object.fromEntries(SECRETS.map((name) => [name, "x".repeat(32)])) },
      encoding: "utf8",
    });
    expect([asked.status, asked.stderr]).toEqual([0, ""]);
  });

  test.each(SECRETS)("does not start without %s, and has none of its own", (name) => {
    // An alias (`*secret`) repeats what its anchor says.
    const set = [...composeText.matchAll(new RegExp(`^ +${name}: (?!\\*)(.*)$`, "gm"))].map(([, value]) => value);
    expect(set).toEqual([expect.stringMatching(new RegExp(`^(&[\\w-]+ )?"\\$\\{${name}:\\?[^}]+\\}"$`))]);
  });
});

describe("src/platform/Dockerfile", () => {
  const dockerfile = readFileSync(join(ROOT, "src/platform/Dockerfile"), "utf8");

  test("has the Node of this repository, what a run needs of packages, and a user that is not root", () => {
    const version = readFileSync(join(ROOT, ".nvmrc"), "utf8").trim().replace(/^v/, "");
    expect(dockerfile).toContain(`ARG NODE_VERSION=${version}\n`);
    expect(dockerfile).toMatch(/^FROM node:\$\{NODE_VERSION\}-slim AS platform$/m);
    expect(dockerfile).toMatch(/^RUN npm ci .*--omit=dev/m);
    expect(dockerfile.indexOf("\nUSER node\n")).toBeGreaterThan(dockerfile.lastIndexOf("\nRUN "));
  });

  test("copies only what .dockerignore lets through", () => {
    const passed = readFileSync(join(ROOT, ".dockerignore"), "utf8")
      .split("\n")
      .filter((line) => line.startsWith("!"))
      .map((line) => line.slice(1));
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(([, sources]) =>
      (sources as string).split(" ").map((source) => source.split("/")[0]),
    );
    expect([...new Set(copied)].sort()).toEqual(passed.sort());
  });
});
