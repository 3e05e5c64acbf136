/**
 * `npm run properties`: runs the laws with a chosen seed, budget or profile, and replays one failing case from the line
 * that its failure printed. A thin wrapper of vitest: it turns options into the environment that laws/seed.ts reads.
 *
 * Exit codes: 0 all laws hold (or the replayed case does), 1 a law is broken, 2 the options are wrong.
 */
import { spawn } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { Verdict } from "./laws/law.ts";

const USAGE = `npm run properties -- [--seed N] [--profile quick|nightly] [--runs N] [--only NAME] [FILE…]
npm run properties -- --seed N --only LAW --path P [--commands C] FILE     replays one case, as its failure printed it`;
const COPY = "copy the whole line that the failure printed";

/** More cases than any budget draws; drawing so many takes seconds. */
const CASES_MAX = 10_000_000;

class UsageError extends Error {}

const options = {
  seed: { type: "string" },
  profile: { type: "string" },
  runs: { type: "string" },
  only: { type: "string" },
  path: { type: "string" },
  commands: { type: "string" },
  help: { type: "boolean" },
} as const;
const read = () => {
  try {
    return parseArgs({ allowPositionals: true, options });
  } catch (error) {
    throw new UsageError(`${(error as Error).message.split("\n")[0]}\n${USAGE}`);
  }
};
type Read = ReturnType<typeof read>;

const isInteger = (text: string): boolean => /^-?\d+$/.test(text) && Number.isSafeInteger(Number(text));

const checkValues = ({ values: { seed, runs, profile, path, commands } }: Read): void => {
  if (seed !== undefined && !isInteger(seed)) throw new UsageError(`--seed should be an integer, but is "${seed}".`);
  if (runs !== undefined && !(isInteger(runs) && Number(runs) > 0)) {
    throw new UsageError(`--runs should be a positive integer, but is "${runs}".`);
  }
  if (profile !== undefined && profile !== "quick" && profile !== "nightly") {
    throw new UsageError(`--profile should be quick or nightly, but is "${profile}".`);
  }
  if (commands !== undefined && path === undefined) {
    throw new UsageError(`--commands belongs to a --path: ${COPY}.`);
  }
};

/** Returns the law whose case is replayed, and its file. */
const lawToReplay = ({ values: { seed, path, only }, positionals }: Read): { name: string; file: string } => {
  const [file] = positionals;
  if (seed === undefined || only === undefined || file === undefined || positionals.length > 1) {
    throw new UsageError(
      `--path leads to one case of one law, so it needs --seed, --only and a file as well: ${COPY}.`,
    );
  }
  if (!/^\d+(:\d+)*$/.test(path as string)) {
    throw new UsageError(`--path should be numbers with colons between them, like 12:0:3, but is "${path}": ${COPY}.`);
  }
  if (Number.parseInt(path as string, 10) > CASES_MAX) {
    throw new UsageError(`--path ${path} leads nowhere: no law draws that many cases; ${COPY}.`);
  }
  let text = "";
  try {
    text = readFileSync(join(root, file), "utf8");
  } catch {
    // An unreadable file is reported below as one without the law.
  }
  if (!text.includes(`law(`) || !text.includes(JSON.stringify(only))) {
    throw new UsageError(`${file} has no law called "${only}": ${COPY}.`);
  }
  return { name: only, file };
};

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));

/** Runs vitest. `keeps`: its output is returned instead of passed on. */
const runVitest = (args: string[], env: NodeJS.ProcessEnv, keeps: boolean): Promise<{ code: number; said: string }> =>
  new Promise((resolve) => {
    const stdio = keeps ? (["inherit", "pipe", "pipe"] as const) : ("inherit" as const);
    const child = spawn(process.execPath, [vitest, "run", "--config", ".vitest.config.ts", ...args], {
      cwd: root,
      env,
      stdio: stdio as "inherit",
    });
    let said = "";
    for (const stream of [child.stdout, child.stderr] as (NodeJS.ReadableStream | null)[]) {
      stream?.on("data", (chunk: Buffer) => {
        said += chunk.toString();
      });
    }
    child.on("close", (code, signal) => resolve({ code: code ?? (signal === "SIGINT" ? 130 : 143), said }));
  });

const escaped = (text: string): string => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

const replayCase = async (read: Read, env: NodeJS.ProcessEnv): Promise<number> => {
  const { file, name } = lawToReplay(read);
  const { seed, path } = read.values;
  const folder = mkdtempSync(join(tmpdir(), "floodgate-replay-"));
  const verdictTo = join(folder, "verdict.json");
  try {
    const title = escaped(`${name} [seed ${Number(seed)}]`);
    const { code, said } = await runVitest(
      ["--testNamePattern", `${title}$`, file],
      { ...env, FLOODGATE_PROPERTY_VERDICT: verdictTo },
      true,
    );
    let verdict: Verdict | null = null;
    try {
      verdict = JSON.parse(readFileSync(verdictTo, "utf8")) as Verdict;
    } catch {
      // The law reached no verdict; the output of vitest shows why.
    }
    if (verdict?.verdict === "no-such-case") {
      throw new UsageError(`--path ${path} leads to no case of "${name}": ${COPY}, on the commit that printed it.`);
    }
    process.stdout.write(said);
    if (verdict?.verdict === "held") process.stdout.write(`The case at ${path} holds now: "${name}".\n`);
    if (verdict === null) process.stdout.write(`"${name}" came to no verdict on the case at ${path}.\n`);
    return verdict === null ? Math.max(code, 1) : code;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

const main = async (): Promise<number> => {
  const asked = read();
  const { values, positionals } = asked;
  if (values.help === true) {
    process.stdout.write(`${USAGE}\n`);
    return 0;
  }
  checkValues(asked);
  const env = { ...process.env };
  for (const name of ["seed", "profile", "runs", "path", "commands"] as const) {
    const value = values[name];
    if (value !== undefined) env[`FLOODGATE_PROPERTY_${name.toUpperCase()}`] = value;
  }
  if (values.path !== undefined) return replayCase(asked, env);
  const only = values.only === undefined ? [] : ["--testNamePattern", escaped(values.only)];
  return (await runVitest([...only, ...(positionals.length === 0 ? ["properties/"] : positionals)], env, false)).code;
};

try {
  process.exitCode = await main();
} catch (error) {
  if (!(error instanceof UsageError)) throw error;
  process.stderr.write(`${error.message}\n`);
  process.exitCode = 2;
}
