/**
 * Finds k6 and toxiproxy: a binary that the user names, whose version is checked, or one built once into `.tools/` from
 * the Go module in src/native. A stamp beside it records sources and compiler. A binary appears whole or not at all.
 */
import { createHash } from "node:crypto";
import { mkdir, readdir, readFile, rename, rm, stat, writeFile } from "node:fs/promises";
import { isAbsolute, join, resolve, sep } from "node:path";
import { REPOSITORY } from "../supervision/run-folder.ts";
import { findGo, GO_MINOR_MIN, goBuild, hasPip, installGo, oneAtATime } from "./go-compiler.ts";
import { askVersion, TOOL_RECIPES, ToolError, ToolMissing, type ToolName, type ToolOptions } from "./tool-recipe.ts";

type Stamp = { sources: string; go: string; machine: string; version: string; bytes: number };

const machine = `${process.platform}/${process.arch}`;

/** A binary with a matching stamp: built here, or by a release (`.github/workflows/release.yml`) with any compiler. */
const findBuilt = async (name: ToolName, root: string, sources: string, go: string | null) => {
  const packed = join(root, "node_modules", `floodgate-tools-${process.platform}-${process.arch}`);
  for (const [folder, compiler] of [[join(root, ".tools"), go] as const, [packed, null] as const]) {
    const path = join(folder, name);
    try {
      const { bytes, version, ...made } = JSON.parse(await readFile(`${path}.json`, "utf8")) as Stamp;
      const isRight = made.sources === sources && made.machine === machine && made.go === (compiler ?? made.go);
      if (isRight && (await stat(path)).size === bytes) return { path, version };
    } catch {} // no stamp or no binary there
  }
  return null;
};

const builtTool = async (name: ToolName, options: ToolOptions) => {
  const { root = REPOSITORY } = options;
  const recipe = TOOL_RECIPES[name];
  const { variable, expected } = recipe;
  const folder = join(root, ".tools");
  const path = join(folder, name);
  const sources = await hashOfSources(root, name);
  let go = await findGo(root, options);
  const found = await findBuilt(name, root, sources, go.version);
  if (found !== null) return found;
  const advice = `Install Go 1.${GO_MINOR_MIN} or newer from https://go.dev/dl, or set ${variable} to an existing ${expected}.`;
  if (!go.isEnough && !(await hasPip(options.env))) {
    throw new ToolMissing(
      `${name} has to be built, which needs Go 1.${GO_MINOR_MIN} or newer on PATH; found ${go.version ?? "no Go"}, and no Python 3 with pip that could install it. ${advice}`,
    );
  }
  await mkdir(folder, { recursive: true }).catch(({ code }: NodeJS.ErrnoException) => {
    throw new ToolError(
      `${name} is built into ${folder}, which cannot be written (${code}). Make it writable, or set ${variable} to an existing ${expected}.`,
    );
  });
  if (!go.isEnough) go = await installGo(root, options, advice);
  const stamp = { sources, go: go.version ?? "", machine };
  return await oneAtATime(folder, name, `building ${name}`, options, async (elapsed) => {
    const meanwhile = await findBuilt(name, root, sources, go.version);
    if (meanwhile !== null) return meanwhile;
    const part = `${path}.${process.pid}.part`;
    options.progress?.(`building ${name} with ${stamp.go}; the first time takes minutes`);
    try {
      await goBuild(name, part, go.env, options);
      const answer = await askVersion(part, recipe, go.env);
      if ("because" in answer) throw new ToolError(`The ${name} just built is not ${expected}: ${answer.because}.`);
      const { version } = answer;
      const { size: bytes } = await stat(part);
      // The old stamp goes first: it must never stand beside a binary that it does not describe.
      await rm(`${path}.json`, { force: true });
      await rename(part, path);
      await writeFile(`${part}.json`, JSON.stringify({ ...stamp, version, bytes } satisfies Stamp));
      await rename(`${part}.json`, `${path}.json`);
      options.progress?.(`built ${name} ${version} in ${elapsed()}`);
      return { path, version };
    } finally {
      await rm(part, { force: true });
    }
  });
};

const hashOfSources = async (root: string, name: ToolName): Promise<string> => {
  const folder = join(root, "src", "native");
  const { package: built, linkerFlags } = TOOL_RECIPES[name];
  const hash = createHash("sha256").update(`${built}\n${linkerFlags}\n`);
  for (const file of (await readdir(folder, { recursive: true })).sort()) {
    const isSource = file.endsWith(".go") && !file.endsWith("_test.go");
    if (!isSource && file !== "go.mod" && file !== "go.sum") continue;
    hash.update(`${file}\n`).update(await readFile(join(folder, file)));
  }
  return hash.digest("hex");
};

/** The tool that the environment names; `null` if it names none. Throws ToolError if that is another program. */
const namedTool = async (name: ToolName, { env = process.env }: ToolOptions) => {
  const recipe = TOOL_RECIPES[name];
  const named = env[recipe.variable];
  if (!named) return null;
  // A bare name is looked up on PATH, as in a shell.
  const path = named.includes(sep) && !isAbsolute(named) ? resolve(named) : named;
  const answer = await askVersion(path, recipe, env);
  if (!("because" in answer)) return { path, version: answer.version };
  throw new ToolError(
    `${recipe.variable} names ${named}, which is not ${recipe.expected}: ${answer.because}. Name one that is, or unset ${recipe.variable} to have it built.`,
  );
};

/** The tool that the environment names, or the one in `.tools/`, built first if need be. */
export const findTool = async (name: ToolName, options: ToolOptions = {}) =>
  (await namedTool(name, options)) ?? (await builtTool(name, options));

/** Predicts the result of `findTool` and builds nothing. `problem`: why the named tool is not accepted. */
export const seeTool = async (name: ToolName, options: ToolOptions) => {
  const { root = REPOSITORY } = options;
  const { version: go, isEnough } = await findGo(root, options);
  try {
    const built = async () => findBuilt(name, root, await hashOfSources(root, name), go);
    const tool = (await namedTool(name, options)) ?? (await built());
    return { tool, problem: null, go, canBeBuilt: isEnough || (tool === null && (await hasPip(options.env))) };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return { tool: null, problem: error.message, go, canBeBuilt: false };
  }
};

export const buildTools = async (progress: (line: string) => void, options: ToolOptions = {}) => {
  // One after the other: each build uses every core by itself.
  const k6 = await builtTool("k6", { ...options, progress });
  return { k6, toxiproxy: await builtTool("toxiproxy", { ...options, progress }) };
};
