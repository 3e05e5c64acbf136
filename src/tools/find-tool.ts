/**
 * Finds k6 and toxiproxy: a binary the user names, which is asked for its version first, because a wrong one would show as
 * a run full of unreachable targets; or one built into `.tools/` from the Go module in src/native, once: a stamp beside
 * each binary says what it was made of. A binary appears whole or not at all: it is built, tried, and renamed.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { isAbsolute, join, resolve, sep } from "node:path";
import { findGo, GO_MINOR_MIN, goBuild, hasPip, installGo } from "./go-compiler.ts";
import { isAlive, underLock, withReminders } from "./tool-lock.ts";
import {
  askVersion,
  TOOL_RECIPES,
  type Tool,
  ToolError,
  ToolMissing,
  type ToolName,
  type ToolOptions,
  type ToolRecipe,
} from "./tool-recipe.ts";

type Stamp = { sources: string; go: string; machine: string; version: string; bytes: number };

/** Where a tool that is built already may stand: built here, or packed by a release (`.github/workflows/release.yml`). */
const foldersOf = (root: string): string[] => [
  join(root, ".tools"),
  join(root, "node_modules", `floodgate-tools-${process.platform}-${process.arch}`),
];

const findBuilt = async (
  recipe: ToolRecipe,
  root: string,
  sources: string,
  go: string | null,
): Promise<Tool | null> => {
  for (const folder of foldersOf(root)) {
    const path = join(folder, recipe.name);
    // A packed tool was built elsewhere, so its compiler may be another.
    const stamp = await current(path, sources, folder.endsWith(".tools") ? go : null);
    if (stamp !== null) return { path, version: stamp.version };
  }
  return null;
};

const builtTool = async (recipe: ToolRecipe, root: string, options: ToolOptions): Promise<Tool> => {
  const folder = join(root, ".tools");
  const path = join(folder, recipe.name);
  const sources = await hashOfSources(join(root, "src", "native"), recipe);
  let go = await findGo(root, options);
  const found = await findBuilt(recipe, root, sources, go.version);
  if (found !== null) return found;
  const advice = `Install Go 1.${GO_MINOR_MIN} or newer from https://go.dev/dl, or set ${recipe.variable} to an existing ${recipe.expected}.`;
  if (!go.isEnough && !(await hasPip(options.env))) {
    throw new ToolMissing(
      `${recipe.name} has to be built, which needs Go 1.${GO_MINOR_MIN} or newer on PATH; found ${go.version ?? "no Go"}, and no Python 3 with pip that could install it. ${advice}`,
    );
  }
  await mkdir(folder, { recursive: true }).catch((error: NodeJS.ErrnoException) => {
    throw new ToolError(
      `${recipe.name} is built into ${folder}, which cannot be written (${error.code}). ` +
        `Make it writable, or set ${recipe.variable} to an existing ${recipe.expected}.`,
    );
  });
  if (!go.isEnough) go = await installGo(root, options, advice);
  return await underLock(`${path}.lock`, `building ${recipe.name}`, options, async () => {
    const meanwhile = await findBuilt(recipe, root, sources, go.version);
    if (meanwhile !== null) return meanwhile;
    await removeLeftovers(folder, recipe.name);
    return await build(recipe, path, root, go.env, { sources, go: go.version ?? "" }, options);
  });
};

const hashOfSources = async (folder: string, recipe: ToolRecipe): Promise<string> => {
  const hash = createHash("sha256").update(`${recipe.package}\n${recipe.linkerFlags}\n`);
  const files = await readdir(folder, { recursive: true });
  for (const file of files.sort()) {
    const isSource = file.endsWith(".go") && !file.endsWith("_test.go");
    if (!isSource && file !== "go.mod" && file !== "go.sum") continue;
    hash.update(`${file}\n`).update(await readFile(join(folder, file)));
  }
  return hash.digest("hex");
};

const machine = `${process.platform}/${process.arch}`;

/** The stamp of a binary that is still right. Without Go there is nothing to compare its version with, nor to build with. */
const current = async (path: string, sources: string, go: string | null): Promise<Stamp | null> => {
  try {
    const stamp = JSON.parse(await readFile(`${path}.json`, "utf8")) as Stamp;
    const same = stamp.sources === sources && stamp.machine === machine && (go === null || stamp.go === go);
    return same && (await stat(path)).size === stamp.bytes ? stamp : null;
  } catch {
    return null;
  }
};

const removeLeftovers = async (folder: string, name: ToolName): Promise<void> => {
  for (const file of await readdir(folder)) {
    const part = /^(.+)\.(\d+)\.part(\.work|\.json)?$/.exec(file);
    if (part !== null && part[1] === name && !isAlive(Number(part[2]))) {
      await rm(join(folder, file), { recursive: true, force: true });
    }
  }
};

const build = async (
  recipe: ToolRecipe,
  path: string,
  root: string,
  env: NodeJS.ProcessEnv,
  madeOf: { sources: string; go: string },
  options: ToolOptions,
): Promise<Tool> => {
  const part = `${path}.${process.pid}.part`;
  options.progress?.(`building ${recipe.name} with ${madeOf.go}; the first build also downloads its Go modules`);
  const make = async (elapsed: () => string): Promise<Tool> => {
    await goBuild(recipe, part, join(root, "src", "native"), env, options);
    const answer = await askVersion(part, recipe, env);
    if ("because" in answer)
      throw new ToolError(`The ${recipe.name} just built is not ${recipe.expected}: ${answer.because}.`);
    const stamp: Stamp = { ...madeOf, machine, version: answer.version, bytes: (await stat(part)).size };
    // The old stamp goes first: it must never stand beside a binary that it does not describe.
    await rm(`${path}.json`, { force: true });
    await rename(part, path);
    await writeFile(`${part}.json`, JSON.stringify(stamp));
    await rename(`${part}.json`, `${path}.json`);
    options.progress?.(`built ${recipe.name} ${answer.version} in ${elapsed()}`);
    return { path, version: answer.version };
  };
  return await withReminders(`building ${recipe.name}`, options, make).finally(() => rm(part, { force: true }));
};

/** The tool that the environment names, or the one in `.tools/`, built first if need be. Throws ToolError when it is something else. */
export const findTool = async (name: ToolName, options: ToolOptions = {}): Promise<Tool> => {
  const recipe = TOOL_RECIPES[name];
  const env = options.env ?? process.env;
  const named = env[recipe.variable];
  if (named === undefined || named === "") return await builtTool(recipe, rootOf(options), options);
  // A bare name is looked up on PATH, as a shell would.
  const path = named.includes(sep) && !isAbsolute(named) ? resolve(named) : named;
  const answer = await askVersion(path, recipe, env);
  if ("because" in answer) {
    throw new ToolError(
      `${recipe.variable} names ${named}, which is not ${recipe.expected}: ${answer.because}. ` +
        `Name one that is, or unset ${recipe.variable} to have it built.`,
    );
  }
  return { path, version: answer.version };
};

type ToolSeen = {
  tool: Tool | null;
  /** Why the one that the variable names is not taken. */
  problem: string | null;
  go: string | null;
  canBeBuilt: boolean;
};

/** Looks and builds nothing: what `findTool` would come to. */
export const seeTool = async (name: ToolName, options: ToolOptions = {}): Promise<ToolSeen> => {
  const recipe = TOOL_RECIPES[name];
  const root = rootOf(options);
  const { version: go, isEnough } = await findGo(root, options);
  const named = (options.env ?? process.env)[recipe.variable] ?? "";
  const tool = await findBuilt(recipe, root, await hashOfSources(join(root, "src", "native"), recipe), go);
  const seen = { problem: null, go, canBeBuilt: isEnough || (tool === null && (await hasPip(options.env))) };
  if (named === "") return { ...seen, tool };
  try {
    return { ...seen, tool: await findTool(name, options) };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return { ...seen, tool: null, problem: error.message, canBeBuilt: false };
  }
};

/** Builds both into `.tools/`, whatever the environment names. For `dev tools`. */
export const buildTools = async (
  progress: (line: string) => void,
  options: ToolOptions = {},
): Promise<Record<ToolName, Tool>> => {
  const build = async (name: ToolName) =>
    await builtTool(TOOL_RECIPES[name], rootOf(options), { ...options, progress });
  // One after the other: each build uses every core by itself.
  const k6 = await build("k6");
  return { k6, toxiproxy: await build("toxiproxy") };
};

const rootOf = (options: ToolOptions): string => options.root ?? resolve(import.meta.dirname, "..", "..");
