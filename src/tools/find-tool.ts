/**
 * Finds k6 and toxiproxy: a binary the user names, or one built here (tool-build.ts). A named one is asked for its
 * version first, because a wrong binary would show as a run full of unreachable targets.
 */
import { isAbsolute, resolve, sep } from "node:path";
import { builtTool, lookForBuilt } from "./tool-build.ts";
import { askVersion, TOOL_RECIPES, type Tool, ToolError, type ToolName, type ToolOptions } from "./tool-recipe.ts";

export { ToolError, ToolMissing, type ToolOptions } from "./tool-recipe.ts";

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
  const { tool, go, canBeBuilt } = await lookForBuilt(TOOL_RECIPES[name], rootOf(options), options);
  const named = (options.env ?? process.env)[TOOL_RECIPES[name].variable] ?? "";
  if (named === "") return { tool, problem: null, go, canBeBuilt };
  try {
    return { tool: await findTool(name, options), problem: null, go, canBeBuilt };
  } catch (error) {
    if (!(error instanceof ToolError)) throw error;
    return { tool: null, problem: error.message, go, canBeBuilt: false };
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
