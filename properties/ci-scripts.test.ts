/** The scripts that users' CI calls (.ci/for-users), by the real shell: whose folder is shown, where runs go, and what a cancelled job leaves. */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { mkdtemp } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { ENTRY, processesAbout } from "../src/cli/command.fixture.ts";
import { isAlive, type ProcessId, signalProcess, startTimeOf } from "../src/supervision/processes.ts";
import { waitUntil } from "../src/supervision/waiting.ts";
import { madeNight } from "../src/trends/nights.fixture.ts";

const SCRIPTS = fileURLToPath(new URL("../.ci/for-users", import.meta.url));

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "floodgate-ci-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true, maxRetries: 3 }));

/** The environment of a step, without what this process was started with by a CI. */
const stepEnv = (more: Record<string, string> = {}): Record<string, string> => ({
  PATH: `${process.execPath.replace(/\/node$/, "")}:${process.env.PATH}`,
  HOME: folder,
  TMPDIR: folder,
  FLOODGATE_NO_INSTALL: "1",
  GITHUB_OUTPUT: join(folder, "output"),
  GITHUB_STEP_SUMMARY: join(folder, "summary"),
  ...more,
});

const script = (name: string, args: string[], env: Record<string, string> = {}) => {
  writeFileSync(join(folder, "summary"), "");
  const done = spawnSync(join(SCRIPTS, name), args, { cwd: folder, env: stepEnv(env), encoding: "utf8" });
  const summary = readFileSync(join(folder, "summary"), "utf8");
  return { code: done.status, said: `${done.stdout}${done.stderr}`, summary };
};

/** The folder of a run that ended some time ago. */
const earlier = (name: string, exitCode = 0): string => {
  const path = join(folder, name);
  mkdirSync(path);
  writeFileSync(join(path, "summary.md"), "a pass of last week\n");
  writeFileSync(
    join(path, "run.json"),
    JSON.stringify({ exit_code: exitCode, started_at: "2026-01-01T00:00:00.000Z" }),
  );
  return path;
};

describe("a folder of an earlier run is not shown as this one's", () => {
  test.each([
    ["command", { COMMAND: "verify --target absent.json" }],
    ["command", { COMMAND: "doctor --target absent.json" }],
    ["nightly", { FLOODGATE_TARGET: "absent.json" }],
  ] as [string, Record<string, string>][])("%s %o", (name, env) => {
    earlier("floodgate-run", 2);
    const { code, summary, said } = script(name, [], env);
    expect(code, said).toBe(2);
    expect(summary).toContain("not run");
    expect(summary).not.toContain("last week");
    // Moved, and never removed.
    const kept = readdirSync(folder).filter((one) => one.startsWith("floodgate-run"));
    expect(kept.map((one) => existsSync(join(folder, one, "summary.md")))).toEqual([true]);
  });

  test("gate-base-and-head", () => {
    mkdirSync(join(folder, "floodgate-gate"));
    earlier(join("floodgate-gate", "run"), 3);
    const { code, summary, said } = script("gate-base-and-head", [".", "."], { FLOODGATE_START: "exit 7" });
    expect(code, said).toBe(3);
    expect(summary).not.toContain("last week");
  });

  test("say-state: shown is what began after the command did, or at least ended as it says", () => {
    const path = earlier("run", 4);
    expect(script("say-state", ["4", path]).summary).toContain("last week");
    expect(script("say-state", ["2", path]).summary).not.toContain("last week");
    const began = `${Math.floor(Date.now() / 1000)}`;
    expect(script("say-state", ["4", path, began]).summary).not.toContain("last week");
    expect(script("say-state", ["0", path, began]).said).toContain("no run was recorded");
    writeFileSync(join(path, "run.json"), JSON.stringify({ exit_code: 1, started_at: new Date().toISOString() }));
    expect(script("say-state", ["137", path, began]).summary).toContain("last week");
  });
});

test("the folder of a run that goes on is left where it is", () => {
  const path = earlier("floodgate-run");
  const journal = (start: string): void =>
    writeFileSync(join(path, "journal.ndjson"), `{"run":{"pid":${process.pid},"start":"${start}","mark":"a"}}\n`);
  journal(startTimeOf(process.pid) ?? "");
  for (const [name, env] of [
    ["nightly", { FLOODGATE_TARGET: "absent.json" }],
    ["command", { COMMAND: "verify --target absent.json" }],
  ] as const) {
    const { code, said, summary } = script(name, [], env);
    expect([code, said]).toEqual([2, expect.stringContaining("another run writes to floodgate-run now")]);
    expect(said).toContain("set FLOODGATE_OUT to one of its own");
    expect(summary).toContain("not run");
  }
  expect(readdirSync(folder).filter((name) => name.startsWith("floodgate-run"))).toEqual(["floodgate-run"]);
  journal("1");
  expect(script("nightly", [], { FLOODGATE_TARGET: "absent.json" }).said).toContain("was moved to");
});

test.skipIf(process.platform !== "linux")(
  "so is that of a run which has only just begun, and does not name itself yet",
  () => {
    const path = earlier("floodgate-run");
    const journal = join(path, "journal.ndjson");
    writeFileSync(journal, "{}\n");
    const run = `{"run":{"pid":${process.pid},"start":"${startTimeOf(process.pid)}","mark":"a"}}`;
    spawn("bash", ["-c", `sleep 1; echo '${run}' >>${journal}`], { stdio: "ignore" });
    const { code, said } = script("nightly", [], { FLOODGATE_TARGET: "absent.json" });
    expect([code, said]).toEqual([2, expect.stringContaining("another run writes to floodgate-run now")]);
  },
);

test.skipIf(process.platform !== "linux")("what cannot be reported leaves the exit code as it is", () => {
  const full = { GITHUB_OUTPUT: "/dev/full", GITHUB_STEP_SUMMARY: "/dev/full" };
  const { code, said } = script("nightly", [], { ...full, FLOODGATE_TARGET: "absent.json" });
  expect([code, said]).toEqual([2, expect.stringContaining("Floodgate: not run")]);
});

test("a dry run of the nightly script sends nothing", () => {
  // A port that nobody listens on: one call would end it with 3.
  const target = {
    schema: "floodgate/target@1",
    base_url: "http://127.0.0.1:1/v1",
    credentials: { server: { key: "k" } },
  };
  const { code, said } = script("nightly", ["--dry-run"], { FLOODGATE_TARGET_JSON: JSON.stringify(target) });
  expect([code, said]).toEqual([0, expect.stringContaining("Nothing was sent")]);
});

test("a secret that is not there is named", () => {
  const { code, said } = script("nightly", [], { FLOODGATE_TARGET_JSON: "" });
  expect([code, said]).toEqual([2, expect.stringContaining("FLOODGATE_TARGET_JSON is empty: a fork's job")]);
});

test("a step's summary stays below what GitHub takes", () => {
  const path = earlier("run", 4);
  const large = "x".repeat(600 * 1024);
  writeFileSync(join(path, "summary.md"), large);
  const env = stepEnv();
  for (let k = 0; k < 3; k++) spawnSync(join(SCRIPTS, "say-state"), ["4", path], { cwd: folder, env });
  const summary = readFileSync(join(folder, "summary"), "utf8");
  expect(summary.length).toBeLessThan(1024 * 1024);
  expect(summary.startsWith(large)).toBe(true);
  expect(summary.match(/inconclusive: .* No room is left/g)).toHaveLength(2);
});

// verify, gate and capacity have the same option; they look at the target first.
test.each(["run smoke", "load steady-mix", "chaos limiter-refused"])("the output folder reaches `%s`", (words) => {
  mkdirSync(join(folder, "taken"));
  writeFileSync(join(folder, "taken", "mine"), "");
  const { said, code } = script("command", [], { COMMAND: words, FLOODGATE_OUT: "taken" });
  expect(said).toContain("--out taken is not an empty folder");
  expect(code).toBe(2);
});

test.each([
  ["exit 7", "20", "base ended before it answered"],
  ["sleep 60", "1", "base wrote no target file to $TARGET_FILE"],
  [
    `echo '{"base_url":"http://127.0.0.1:1/v1"}' >$TARGET_FILE; sleep 60`,
    // A busy machine may need seconds to start the shell that writes the file.
    "5",
    "base does not answer at the base_url of its",
  ],
])("what a deployment did not do is said: %s", (start, seconds, why) => {
  const env = { FLOODGATE_START: start, FLOODGATE_WAIT_S: seconds };
  const { code, said, summary } = script("gate-base-and-head", [".", "."], env);
  expect([code, said]).toEqual([3, expect.stringContaining(why)]);
  expect(summary).toContain(`not run: ${why}`);
});

test("a build that fails is to be mended: 2, and every place says which side it is", () => {
  const env = { FLOODGATE_BUILD: "echo no compiler here; exit 9", FLOODGATE_START: "exit 7" };
  const { code, said, summary } = script("gate-base-and-head", [".", "."], env);
  expect([code, said]).toEqual([2, expect.stringMatching(/the build of base failed; [\s\S]*no compiler here/)]);
  expect(said).toContain("Floodgate: not run: the build of base failed (exit code 2)");
  expect(summary).toContain("not run: the build of base failed");
});

describe.skipIf(process.platform !== "linux")("a command whose shell was killed", () => {
  const started: ProcessId[] = [];
  afterEach(() => {
    for (const one of started.splice(0)) signalProcess(one, "SIGKILL");
  });
  /** A search that would go on for ten minutes, below a shell; resolves when it has begun. */
  const search = async (command: string, args: string[], env: Record<string, string>): Promise<ChildProcess> => {
    const shell = spawn(command, args, { cwd: folder, env: stepEnv(env), stdio: "ignore" });
    const begun = async (): Promise<boolean> => existsSync(join(folder, "out", "run.json"));
    const { met } = await waitUntil(begun, { forMs: 60_000, pollMs: 50 });
    started.push(...processesAbout(join(folder, "out")));
    expect(met).toBe(true);
    return shell;
  };
  const words = (): string[] => ["chaos", "--explore", "--for", "10m", "--out", join(folder, "out")];
  const below = (): ProcessId[] => started.filter(isAlive);
  const isGone = async (): Promise<boolean> => below().length === 0;
  const byShell = ["-c", '"$0" "$@"; exit $?', process.execPath, ENTRY];

  test("ends in order in a CI job, where the shell of a step is signalled alone", async () => {
    const shell = await search("bash", [...byShell, ...words()], { CI: "true" });
    shell.kill("SIGINT");
    shell.kill("SIGKILL");
    expect((await waitUntil(isGone, { forMs: 20_000, pollMs: 50 })).met).toBe(true);
    expect(JSON.parse(readFileSync(join(folder, "out", "run.json"), "utf8"))).toMatchObject({ exit_code: 143 });
  });

  test("goes on elsewhere, and in a job that wants it so", async () => {
    const shell = await search("bash", [...byShell, ...words()], { CI: "true", FLOODGATE_END_WITH_PARENT: "0" });
    shell.kill("SIGKILL");
    // Twice as long as it takes to notice.
    expect((await waitUntil(isGone, { forMs: 2_000, pollMs: 100 })).met).toBe(false);
  });

  test("ends in order below the scripts, which also end what they started and remove what is secret", async () => {
    const shell = await search(join(SCRIPTS, "command"), [], { COMMAND: words().join(" ") });
    shell.kill("SIGKILL");
    expect((await waitUntil(isGone, { forMs: 20_000, pollMs: 50 })).met).toBe(true);
    const start = `echo '{"base_url":"http://127.0.0.1:1/v1"}' >$TARGET_FILE; exec -a ${join(folder, "out")} sleep 600`;
    const gate = spawn(join(SCRIPTS, "gate-base-and-head"), [folder, folder], {
      ...{ cwd: folder, stdio: "ignore" },
      env: stepEnv({ FLOODGATE_START: start, FLOODGATE_WAIT_S: "60" }),
    });
    const isBuilt = async (): Promise<boolean> => processesAbout(join(folder, "out")).length === 2;
    expect((await waitUntil(isBuilt, { forMs: 20_000, pollMs: 50 })).met).toBe(true);
    started.push(...processesAbout(join(folder, "out")));
    const secrets = (): string[] => readdirSync(folder).filter((name) => name.startsWith("tmp."));
    expect(secrets()).toHaveLength(1);
    gate.kill("SIGKILL");
    const isClean = async (): Promise<boolean> => (await isGone()) && secrets().length === 0;
    expect((await waitUntil(isClean, { forMs: 20_000, pollMs: 50 })).met).toBe(true);
  });
});

test("nights that two jobs keep at once are both on the branch, once; a run without a night is red", async () => {
  const git = (...args: string[]) => spawnSync("git", args, { cwd: folder, env: stepEnv(), encoding: "utf8" });
  git("init", "-q", "--bare", "origin.git");
  const jobs = [1, 2].map((day) => {
    mkdirSync(join(folder, `run-${day}`));
    writeFileSync(join(folder, `run-${day}/night.json`), JSON.stringify(madeNight(day)));
    git("init", "-q", `clone-${day}`);
    git("-C", `clone-${day}`, "remote", "add", "origin", join(folder, "origin.git"));
    return () =>
      spawn(join(SCRIPTS, "keep-night"), [`run-${day}`], {
        cwd: folder,
        env: stepEnv({ FLOODGATE_NIGHTS_CLONE: join(folder, `clone-${day}`) }),
      });
  });
  const codes = (all: ChildProcess[]) => Promise.all(all.map((child) => once(child, "exit").then(([code]) => code)));
  expect(await codes(jobs.map((start) => start()))).toEqual([0, 0]);
  expect(await codes(jobs.slice(0, 1).map((start) => start()))).toEqual([0]);
  const { stdout } = git("-C", "origin.git", "show", "floodgate-nights:2026-09.ndjson");
  const kept = stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line).seed);
  expect(kept.sort()).toEqual([1, 2]);
  expect(readdirSync(folder).filter((name) => name.startsWith("tmp."))).toEqual([]);
  expect(script("keep-night", ["absent"], { FLOODGATE_NIGHTS_CLONE: join(folder, "clone-1") }).code).toBe(2);
});
