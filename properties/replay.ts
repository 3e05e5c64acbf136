/**
 * `npm run properties`: runs the laws with a chosen seed, budget or profile, and replays one failing case from the line
 * that its failure printed. A thin front of vitest: it turns options into the environment that support/seed.ts reads.
 */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";

const USAGE = `npm run properties -- [--seed N] [--profile quick|nightly] [--runs N] [--only NAME] [--path P [--commands C]] [FILE…]`;

const complain = (sentence: string): never => {
  process.stderr.write(`${sentence}\n${USAGE}\n`);
  process.exit(2);
};

const read = () => {
  try {
    return parseArgs({
      allowPositionals: true,
      options: {
        seed: { type: "string" },
        profile: { type: "string" },
        runs: { type: "string" },
        only: { type: "string" },
        path: { type: "string" },
        commands: { type: "string" },
        help: { type: "boolean" },
      },
    });
  } catch (error) {
    return complain((error as Error).message);
  }
};

const { values, positionals } = read();
if (values.help === true) {
  process.stdout.write(`${USAGE}\n`);
  process.exit(0);
}
if (values.path !== undefined && (values.seed === undefined || values.only === undefined)) {
  complain("--path leads to one case of one law, so it needs --seed and --only as well.");
}

const env = { ...process.env };
for (const name of ["seed", "profile", "runs", "path", "commands"] as const) {
  const value = values[name];
  if (value !== undefined) env[`FLOODGATE_PROPERTY_${name.toUpperCase()}`] = value;
}

const root = fileURLToPath(new URL("..", import.meta.url));
const vitest = fileURLToPath(new URL("../node_modules/vitest/vitest.mjs", import.meta.url));
const args = [vitest, "run", "--config", ".vitest.config.ts"];
if (values.only !== undefined) args.push("--testNamePattern", values.only.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
args.push(...(positionals.length === 0 ? ["properties/"] : positionals));

const child = spawn(process.execPath, args, { cwd: root, env, stdio: "inherit" });
child.on("exit", (code, signal) => process.exit(code ?? (signal === "SIGINT" ? 130 : 143)));
