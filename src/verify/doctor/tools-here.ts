/** Finds the tools: path and version, or how to get them. Builds and downloads nothing. */
import { seeTool } from "../../tools/find-tool.ts";
import { GO_MINOR_MIN } from "../../tools/go-compiler.ts";
import { askProgram, TOOL_RECIPES, type ToolName, type ToolOptions } from "../../tools/tool-recipe.ts";
import { type Finding, finding, type Section } from "./finding.ts";

const VERSION_WAIT_MS = 10_000;

/** The path of the first of these programs that the shell finds. */
const onPath = async (names: readonly string[], { PATH }: NodeJS.ProcessEnv): Promise<string | null> => {
  const first = 'for name; do command -v "$name" && break; done';
  const { stdout } = await askProgram("/bin/sh", ["-c", first, "sh", ...names], { env: { PATH } });
  return stdout.trim() || null;
};

const versionOf = async (path: string, args: string[]): Promise<string | null> => {
  const { error, stdout } = await askProgram(path, args, { timeout: VERSION_WAIT_MS });
  return error === null ? stdout.trim().split("\n")[0]?.slice(0, 100) || null : null;
};

const built = async (name: ToolName, options: ToolOptions): Promise<Finding> => {
  const { tool, problem, go, canBeBuilt } = await seeTool(name, options);
  const { variable, expected } = TOOL_RECIPES[name];
  if (tool !== null) return finding("ok", name, `${tool.version} at ${tool.path}`);
  if (problem !== null) return finding("missing", name, problem);
  const builder = go ?? "Go, installed by Python's pip,";
  const buildable = `not built yet, or out of date; ${builder} can build it on first use (a few minutes)`;
  if (canBeBuilt) return finding("warn", name, buildable, "npx floodgate dev tools");
  const text = `not built yet, and no Go 1.${GO_MINOR_MIN} or newer is there to build it`;
  const todo = `install Go from https://go.dev/dl, or set ${variable} to an existing ${expected}`;
  return finding("missing", name, text, todo);
};

const goHere = async (env: NodeJS.ProcessEnv, needed: boolean): Promise<Finding> => {
  const path = await onPath(["go"], env);
  const version = path === null ? null : await versionOf(path, ["env", "GOVERSION"]);
  const todo = "install it from https://go.dev/dl";
  const state = needed ? "missing" : "info";
  if (path === null || version === null)
    return finding(state, "go", "not found on PATH; it builds k6 and toxiproxy", todo);
  const isEnough = Number(/go1\.(\d+)/.exec(version)?.[1] ?? 0) >= GO_MINOR_MIN;
  return isEnough
    ? finding("ok", "go", `${version.replace(/^go/, "")} at ${path}`)
    : finding(state, "go", `expected 1.${GO_MINOR_MIN} or newer, found ${version} at ${path}`, todo);
};

const optional = async (name: string, names: string[], use: string, env: NodeJS.ProcessEnv): Promise<Finding> => {
  const path = await onPath(names, env);
  if (path === null) return finding("info", name, `not found on PATH (optional: ${use})`);
  const said = await versionOf(path, ["--version"]);
  return finding("ok", name, `${/\d+\.\d+\S*/.exec(said ?? "")?.[0] ?? "unknown version"} at ${path} (optional)`);
};

const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

export const toolsHere = async (options: ToolOptions = {}): Promise<Section> => {
  const env = options.env ?? process.env;
  // The launcher refuses a Node that is too old before this file is loaded.
  const node = finding("ok", "node", `${process.versions.node} at ${process.execPath}`);
  const [k6, toxiproxy, ...others] = await Promise.all([
    built("k6", options),
    built("toxiproxy", options),
    optional("redis-server", ["redis-server"], "only `serve --limiter redis://...` and a few tests use one", env),
    optional("chromium", BROWSERS, "any browser shows the report", env),
  ]);
  const go = await goHere(env, k6.state === "missing" || toxiproxy.state === "missing");
  return { title: "Tools", findings: [node, go, k6, toxiproxy, ...others] };
};
