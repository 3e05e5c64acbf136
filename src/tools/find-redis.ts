/** Where redis-server comes from: it is never built here, only found. */
import { askProgram, type Tool, ToolError } from "./tool-recipe.ts";

const VARIABLE = "FLOODGATE_REDIS";
/** From here on scripts may read the time and write afterwards, and a replica names its errors as ours reads them. */
const LEAST_MAJOR = 6;
const ASK_MS = 5_000;
const ADVICE = `install it (apt-get install redis-server), or name one with ${VARIABLE}`;

export const findRedis = async (env: NodeJS.ProcessEnv = process.env): Promise<Tool> => {
  const path = env[VARIABLE] || "redis-server";
  const { error, stdout: said } = await askProgram(path, ["--version"], { timeout: ASK_MS });
  if (error !== null) {
    throw new ToolError(`expected redis-server for --limiter redis, but ${path} cannot be run: ${ADVICE}`);
  }
  const version = /\bv=(\d+)(\.[\d.]+)?/.exec(said);
  if (version === null || Number(version[1]) < LEAST_MAJOR) {
    throw new ToolError(
      `expected redis-server ${LEAST_MAJOR} or later for --limiter redis, but ${path} says "${said.trim().slice(0, 60)}": ${ADVICE}`,
    );
  }
  return { path, version: `${version[1]}${version[2] ?? ""}` };
};
