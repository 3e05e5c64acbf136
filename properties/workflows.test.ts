/** The workflows that users are given: they parse, what they call is there, and they keep to what protects a repository. */
import { accessSync, constants, existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";

const ROOT = fileURLToPath(new URL("..", import.meta.url));
const SCRIPTS = ".ci/for-users";

type Step = { uses?: string; run?: string; shell?: string; env?: Record<string, string>; with?: object };
type Job = { steps: Step[]; "timeout-minutes"?: number; permissions?: object };
type Workflow = { on: object; permissions?: object; concurrency?: object; jobs?: Record<string, Job> };

const yamlFiles = (readdirSync(join(ROOT, ".github"), { recursive: true }) as string[])
  .filter((name) => /\.ya?ml$/.test(name))
  .map((name) => join(".github", name))
  .sort();
const workflows = yamlFiles.filter((path) => dirname(path) === join(".github", "workflows"));
const withSteps = yamlFiles.filter((path) => workflows.includes(path) || path.endsWith("action.yml"));
const textOf = (path: string): string => readFileSync(join(ROOT, path), "utf8");
const read = (path: string): unknown => parse(textOf(path), { strict: true, uniqueKeys: true });

const stepsOf = (path: string): Step[] => {
  const { jobs, runs } = read(path) as Workflow & { runs?: { steps: Step[] } };
  return [...Object.values(jobs ?? {}).flatMap(({ steps }) => steps), ...(runs?.steps ?? [])];
};

/** Scripts that a text calls, as paths of this repository: a checkout's folder may stand before them. */
const scriptsIn = (text: string): string[] => [...text.matchAll(/\.ci\/[\w/-]+/g)].map(([path]) => path);

/** What is wrong with a workflow or an action, in sentences. */
const faultsOf = (path: string): string[] => {
  const faults: string[] = [];
  for (const { uses, run } of stepsOf(path)) {
    if (run?.includes("${{") === true) {
      faults.push(`${path}: "${run}" puts an expression into shell text: hand it over by env.`);
    }
    for (const script of scriptsIn(run ?? "")) {
      try {
        accessSync(join(ROOT, script), constants.X_OK);
      } catch {
        faults.push(`${path} calls ${script}, which is not there or cannot be executed.`);
      }
    }
    const local = /^\.\/(?:floodgate\/)?(.*)$/.exec(uses ?? "")?.[1];
    if (local !== undefined && !existsSync(join(ROOT, local, "action.yml"))) {
      faults.push(`${path} uses ${local}, where there is no action.yml.`);
    }
    if (local === undefined && uses !== undefined && !/^[\w-]+\/[\w-]+@v\d+$/.test(uses)) {
      faults.push(`${path} uses ${uses}: expected an action with its version.`);
    }
  }
  return faults;
};

describe("what .github holds", () => {
  test("it holds what the README names", () => {
    expect(yamlFiles).toEqual([
      ".github/ISSUE_TEMPLATE/bug.yml",
      ".github/ISSUE_TEMPLATE/config.yml",
      ".github/ISSUE_TEMPLATE/question-about-the-specification.yml",
      ".github/ISSUE_TEMPLATE/wrong-verdict.yml",
      ".github/actions/floodgate/action.yml",
      ".github/dependabot.yml",
      ".github/workflows/gate.yml",
      ".github/workflows/nightly.yml",
      ".github/workflows/release.yml",
    ]);
    for (const path of yamlFiles) expect(read(path), path).toBeTypeOf("object");
  });

  test.each(withSteps)("%s parses, and what it calls is there", (path) => {
    expect(stepsOf(path).length).toBeGreaterThan(3);
    expect(faultsOf(path)).toEqual([]);
  });

  test.each(workflows)("%s is bounded, and reads alone", (path) => {
    const { on, permissions, concurrency, jobs = {} } = read(path) as Workflow;
    expect(permissions).toEqual({ contents: "read" });
    expect(concurrency).toHaveProperty("group");
    expect(Object.keys(on)).not.toContain("pull_request_target");
    for (const job of Object.values(jobs)) {
      expect(job["timeout-minutes"]).toBeGreaterThan(0);
      expect(job.permissions).toBeUndefined();
      const checkouts = job.steps.filter(({ uses }) => uses?.startsWith("actions/checkout@"));
      for (const { with: options } of checkouts) expect(options).toHaveProperty("persist-credentials", false);
    }
  });

  test("no secret reaches a pull request's run", () => {
    expect(textOf(".github/workflows/gate.yml")).not.toContain("secrets.");
  });
});

test("every script for users is tried by the project's own CI", () => {
  const tried = textOf(join(SCRIPTS, "try"));
  const scripts = readdirSync(join(ROOT, SCRIPTS)).filter((name) => name !== "try");
  expect(scripts.length).toBeGreaterThan(2);
  const callsOf = (name: string): string => textOf(join(SCRIPTS, name));
  const isCalled = (name: string): boolean =>
    [tried, ...scripts.map(callsOf)].some((text) => text.includes(`"$here/${name}"`));
  expect(scripts.filter((name) => !isCalled(name))).toEqual([]);
  expect(scriptsIn(textOf(".ci/run"))).toContain(`${SCRIPTS}/try`);
});
