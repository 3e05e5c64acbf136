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

/** How a program is recognized by what it prints as its version. */
type Known = {
  variable: string;
  expected: string;
  versionArguments: readonly string[];
  pattern: RegExp;
  /** The major versions that will do. */
  least: number;
  most: number;
  /** A k6 extension that the output has to name as well. */
  extension?: string;
};

/** The tools that are built here: the Go package of each in src/native, and flags of its linker. */
export const TOOL_RECIPES = {
  k6: {
    variable: "FLOODGATE_K6",
    expected: "k6 2.x with the extension k6/x/floodgate",
    versionArguments: ["version"],
    // The first word is the file's name, which the user may choose; the extension proves that the program is our k6.
    pattern: /^\S+ v(\d+\.\S+) \(.*\bgo\d/m,
    ...{ least: 2, most: Number.POSITIVE_INFINITY, extension: "k6/x/floodgate" },
    package: "./k6",
    linkerFlags: "-s -w",
  },
  toxiproxy: {
    variable: "FLOODGATE_TOXIPROXY",
    expected: "toxiproxy-server 2.x",
    versionArguments: ["-version"],
    pattern: /^toxiproxy-server version v?(\S+)/m,
    ...{ least: 2, most: 2 },
    package: "github.com/Shopify/toxiproxy/v2/cmd/server",
    linkerFlags: `-s -w -X github.com/Shopify/toxiproxy/v2.Version=${TOXIPROXY_VERSION}`,
  },
} satisfies Readonly<Record<string, Known & { package: string; linkerFlags: string }>>;

export type ToolName = keyof typeof TOOL_RECIPES;

/** Redis 6 lets a script write after it has read the time, and its errors have the names that we read. */
const REDIS: Known = {
  variable: "FLOODGATE_REDIS",
  expected: "redis-server 6 or later",
  versionArguments: ["--version"],
  pattern: /\bv=(\d[\d.]*)/,
  ...{ least: 6, most: Number.POSITIVE_INFINITY },
};

/** Runs a program and returns what it prints; `error` if it could not be started, failed or took too long. */
export const askProgram = (path: string, args: readonly string[], how: ExecFileOptions) =>
  new Promise<{ error: ExecFileException | null; stdout: string; stderr: string }>((resolve) => {
    const given = { ...how, encoding: "utf8" } as const;
    execFile(path, args, given, (error, stdout, stderr) => resolve({ error, stdout, stderr }));
  });

/** The version that a program prints; or `because`: why it is another program or cannot be run. */
export const askVersion = async (path: string, known: Known, env: NodeJS.ProcessEnv) => {
  const { versionArguments, pattern, least, most, extension } = known;
  const bare: NodeJS.ProcessEnv = { PATH: env.PATH, HOME: env.HOME };
  const { error, stdout, stderr } = await askProgram(path, versionArguments, { env: bare, timeout: 20_000 });
  // A text code means that the program could not be started. A number is its exit status, and the output still counts.
  if (typeof error?.code === "string") return { because: `it could not be run (${error.code})` };
  if (error?.killed === true) return { because: "it did not say its version within 20 s" };
  const output = `${stdout}${stderr}`;
  const version = pattern.exec(output)?.[1];
  if (version === undefined) {
    const line = output.trim().split("\n")[0]?.trim().slice(0, 80);
    return { because: `asked for its version, it printed ${line ? `"${line}"` : "nothing"}` };
  }
  const major = Number(version.split(".")[0]);
  if (!(major >= least && major <= most)) return { because: `it is version ${version}` };
  if (extension !== undefined && !new RegExp(`\\b${RegExp.escape(extension)}\\b`).test(output))
    return { because: `it is version ${version} and does not have ${extension}` };
  return { version };
};

/** Finds redis-server, which is never built here. */
export const findRedis = async (env: NodeJS.ProcessEnv = process.env) => {
  const path = env[REDIS.variable] || "redis-server";
  const answer = await askVersion(path, REDIS, env);
  if (!("because" in answer)) return { path, version: answer.version };
  const advice = `install it (apt-get install redis-server), or name one with ${REDIS.variable}`;
  throw new ToolError(
    `expected ${REDIS.expected} for --limiter redis, but ${path} is something else: ${answer.because}; ${advice}`,
  );
};
