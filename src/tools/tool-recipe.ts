/** How k6, toxiproxy and redis-server are recognized by their printed version, and how the first two are built. */
import { type ExecFileException, type ExecFileOptions, execFile } from "node:child_process";

/** A tool is missing or is another program. The message is for users: what was expected, what was found, what to do. */
export class ToolError extends Error {
  override name = "ToolError";
}

/** The tool is missing and cannot be built here, through no mistake of the user. A stand-in may replace it. */
export class ToolMissing extends ToolError {}

export interface ToolOptions {
  env?: NodeJS.ProcessEnv;
  /** The repository's folder, with src/native and .tools (default: this one). */
  root?: string;
  progress?: (line: string) => void;
  signal?: AbortSignal;
  /** Gets the id of the compiler, which leads its own group. The returned function is called when it has ended. */
  onSpawn?: (pid: number) => () => void;
  reminderMs?: number;
}

const TOXIPROXY_VERSION = "2.12.0";

const whatItPrinted = (output: string): string => {
  const line = output.split("\n").find((text) => text.trim() !== "");
  return line === undefined ? "it printed nothing" : `it printed "${line.trim().slice(0, 80)}"`;
};

/** How a tool is built and recognized. `recognise` reads the version that the tool prints. */
export const TOOL_RECIPES = {
  k6: {
    name: "k6",
    variable: "FLOODGATE_K6",
    expected: "k6 2.x with the extension k6/x/floodgate",
    versionArguments: ["version"],
    package: "./k6",
    linkerFlags: "-s -w",
    recognise: (output: string) => {
      // The first word is the file's name, which the user may choose; the extension proves that the program is our k6.
      const version = /^\S+ v((\d+)\.\S+) \(.*\bgo\d/m.exec(output);
      if (version === null) return { because: `asked for its version, ${whatItPrinted(output)}` };
      if (Number(version[2]) < 2) return { because: `it is version ${version[1]}` };
      if (!/\bk6\/x\/floodgate\b/.test(output))
        return { because: `it is version ${version[1]} and does not have k6/x/floodgate` };
      return { version: version[1] as string };
    },
  },
  toxiproxy: {
    name: "toxiproxy",
    variable: "FLOODGATE_TOXIPROXY",
    expected: "toxiproxy-server 2.x",
    versionArguments: ["-version"],
    package: "github.com/Shopify/toxiproxy/v2/cmd/server",
    linkerFlags: `-s -w -X github.com/Shopify/toxiproxy/v2.Version=${TOXIPROXY_VERSION}`,
    recognise: (output: string) => {
      const version = /^toxiproxy-server version v?(\S+)/m.exec(output)?.[1];
      if (version === undefined) return { because: `asked for its version, ${whatItPrinted(output)}` };
      return version.startsWith("2.") ? { version } : { because: `it is toxiproxy-server ${version}` };
    },
  },
};

export type ToolName = keyof typeof TOOL_RECIPES;
export type ToolRecipe = (typeof TOOL_RECIPES)[ToolName];

/** Runs a program and returns what it prints; `error` if it could not be started, failed or took too long. */
export const askProgram = (path: string, args: readonly string[], how: ExecFileOptions) =>
  new Promise<{ error: ExecFileException | null; stdout: string; stderr: string }>((resolve) => {
    const given = { ...how, encoding: "utf8" } as const;
    execFile(path, args, given, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
  });

type Recognised = Pick<ToolRecipe, "versionArguments"> & {
  recognise(output: string): { version: string } | { because: string };
};

/** The version that a program prints; or `because`: why it is another program or cannot be run. */
export const askVersion = async (path: string, recipe: Recognised, env: NodeJS.ProcessEnv) => {
  const bare: NodeJS.ProcessEnv = { PATH: env.PATH, HOME: env.HOME };
  const { error, stdout, stderr } = await askProgram(path, recipe.versionArguments, { env: bare, timeout: 20_000 });
  // A text code means that the program could not be started. A number is its exit status, and the output still counts.
  if (typeof error?.code === "string") return { because: `it could not be run (${error.code})` };
  if (error?.killed === true) return { because: "it did not say its version within 20 s" };
  return recipe.recognise(`${stdout}${stderr}`);
};

const REDIS = {
  variable: "FLOODGATE_REDIS",
  versionArguments: ["--version"],
  /** Requires 6, where a script may write after it has read the time and errors have the names that we read. */
  recognise: (output: string) => {
    const version = /\bv=(\d+)(\.[\d.]+)?/.exec(output);
    if (version === null || Number(version[1]) < 6) return { because: `it says "${output.trim().slice(0, 60)}"` };
    return { version: `${version[1]}${version[2] ?? ""}` };
  },
};

/** Finds redis-server, which is never built here. */
export const findRedis = async (env: NodeJS.ProcessEnv = process.env) => {
  const path = env[REDIS.variable] || "redis-server";
  const answer = await askVersion(path, REDIS, env);
  if (!("because" in answer)) return { path, version: answer.version };
  const advice = `install it (apt-get install redis-server), or name one with ${REDIS.variable}`;
  throw new ToolError(
    `expected redis-server 6 or later for --limiter redis, but ${path} is none: ${answer.because}; ${advice}`,
  );
};
