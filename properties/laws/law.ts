/**
 * A law: what must hold for all inputs, as one vitest test. Its seed is in the test's title, and a failure ends with the
 * command that replays exactly the failing case.
 */
import { writeFileSync } from "node:fs";
import { relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { examine, type Finding, NoSuchCase, type Property } from "./examine.ts";
import { type Replay, type Runs, readBudget, runsOf, seedOfLaw } from "./seed.ts";

export const BUDGET = readBudget(process.env);

/** Far more than the quick budget needs on a busy machine; a budget chosen by the user may take two hours. */
const TIMEOUT_MS = BUDGET.profile === "quick" && BUDGET.runs === null ? 120_000 : 7_200_000;

const DEFAULT_RUNS: Runs = { quick: 300, nightly: 30_000 };

/** The result of a replayed case, for the command that replays it (replay.ts). */
export type Verdict = { verdict: "failed" | "held" } | { verdict: "no-such-case"; why: string };

/** Quotes a word for a POSIX shell. */
const quoted = (text: string): string => (/^[\w:+/=.,-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`);

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** Throws with the command that replays the case. */
const failWith = (name: string, { path, commands, message }: Finding): never => {
  const words = ["npm run properties -- --seed", `${BUDGET.seed}`, "--only", quoted(name), "--path", path];
  if (commands !== undefined) words.push("--commands", quoted(commands));
  const file = relative(ROOT, expect.getState().testPath ?? "");
  throw new Error(`${message}\n\nReplay: ${[...words, file].join(" ")}`);
};

const replay = async (property: Property, seed: number, { verdictTo, ...where }: Replay): Promise<Finding | null> => {
  const tell = (verdict: Verdict): void => {
    if (verdictTo !== undefined) writeFileSync(verdictTo, JSON.stringify(verdict));
  };
  const finding = await examine(property, { seed, runs: 1, ...where }).catch((error: unknown) => {
    if (error instanceof NoSuchCase) tell({ verdict: "no-such-case", why: error.message });
    throw error;
  });
  tell({ verdict: finding === null ? "held" : "failed" });
  return finding;
};

/**
 * Registers a law under a name that states it. The property is made anew for each run, because schedulers and models hold
 * state; a replay passes the path through its commands, and its name pattern leaves all other laws out. `skipped`: why the
 * law cannot be judged here.
 */
export const law = (
  name: string,
  property: (commands?: string) => Property,
  runs: Runs = DEFAULT_RUNS,
  skipped: string | null = null,
): void => {
  const title = `${name}${skipped === null ? "" : ` (skipped: ${skipped})`} [seed ${BUDGET.seed}]`;
  test.skipIf(skipped !== null)(title, { timeout: TIMEOUT_MS }, async () => {
    const seed = seedOfLaw(BUDGET.seed, name);
    const finding =
      BUDGET.replay === null
        ? await examine(property(), { seed, runs: runsOf(BUDGET, runs) })
        : await replay(property(BUDGET.replay.commands), seed, BUDGET.replay);
    if (finding !== null) failWith(name, finding);
  });
};
