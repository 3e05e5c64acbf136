/**
 * Runs the Go compiler on src/native so that the same sources give the same binary everywhere, and so that nothing of it stays behind
 * when the work is stopped.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdir, rm } from "node:fs/promises";
import { beforeSignalEnds } from "../supervision/stop-signals.ts";
import { ToolMissing, type ToolOptions, type ToolRecipe } from "./tool-recipe.ts";

/** Builds one package of the module in `cwd` into the file `out`. Throws ToolMissing, or the signal's reason. */
export const goBuild = async (
  recipe: ToolRecipe,
  out: string,
  cwd: string,
  env: NodeJS.ProcessEnv,
  { signal, onSpawn }: Pick<ToolOptions, "signal" | "onSpawn">,
): Promise<void> => {
  // go leaves its compilers and its work folder behind when it is stopped; a group and a folder of its own let us end all of it.
  const work = `${out}.work`;
  await mkdir(work, { recursive: true });
  const flags = ["-buildvcs=false", "-trimpath", "-ldflags", recipe.linkerFlags];
  const go = spawn("go", ["build", ...flags, "-o", out, recipe.package], {
    cwd,
    env: { ...env, GOTMPDIR: work },
    stdio: ["ignore", "ignore", "pipe"],
    detached: true,
  });
  const forget = go.pid === undefined ? undefined : onSpawn?.(go.pid);
  const release = endWithUs(go, signal);
  try {
    await new Promise<void>((resolve, reject) => {
      let said = "";
      go.stderr.on("data", (chunk: Buffer) => {
        said = `${said}${chunk}`.slice(-4000);
      });
      go.on("error", (error) =>
        reject(new ToolMissing(`Building ${recipe.name} failed: go could not be run (${error.message}).`)),
      );
      go.on("close", (code) => {
        if (signal?.aborted === true) reject(signal.reason);
        else if (code === 0) resolve();
        else reject(new ToolMissing(whyBuildFailed(recipe, said)));
      });
    });
  } finally {
    release();
    forget?.();
    await rm(work, { recursive: true, force: true, maxRetries: 3 });
  }
};

/** Ends the child's group when this process is asked to end or the work is aborted; returns how to call that off. */
const endWithUs = (child: ChildProcess, signal: AbortSignal | undefined): (() => void) => {
  const endGroup = () => {
    try {
      if (child.pid !== undefined && child.exitCode === null) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended by itself.
    }
  };
  const forget = beforeSignalEnds(endGroup);
  const release = () => {
    forget();
    process.off("exit", endGroup);
    signal?.removeEventListener("abort", endGroup);
  };
  process.on("exit", endGroup);
  signal?.addEventListener("abort", endGroup);
  return release;
};

const whyBuildFailed = (recipe: ToolRecipe, said: string): string => {
  const lines = said.split("\n").filter((line) => line.trim() !== "" && !line.startsWith("go: downloading"));
  return (
    `Building ${recipe.name} from src/native failed: ${lines.slice(-5).join(" / ") || "go said nothing"}. ` +
    `If Go modules cannot be downloaded here, set ${recipe.variable} to an existing ${recipe.expected}.`
  );
};
