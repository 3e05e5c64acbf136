/**
 * A law: what must hold for all inputs, as one vitest test. The seed stands in the test's title, and a failure ends in the
 * line that replays exactly the failing case. Finding the failure (`examine`) gives data; only `law` throws.
 */
import fc from "fast-check";
import { test } from "vitest";
import { type Budget, type Runs, readBudget, runsOf } from "./seed.ts";

export const BUDGET = readBudget(process.env);

/** What a law's predicate may be: synchronous, or about promises. */
export type Property = fc.IRawProperty<unknown>;

export type Finding = { path: string; message: string };

/** Far more than the quick budget needs on a busy machine; a budget of somebody's own choice may take its time. */
const TIMEOUT_MS = BUDGET.profile === "quick" && BUDGET.runs === null ? 120_000 : 7_200_000;

const DEFAULT_RUNS: Runs = { quick: 300, nightly: 30_000 };

/** Single quotes, for a POSIX shell. */
const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

export const replayLine = (seed: number, path: string, name: string, commands?: string): string =>
  `npm run properties -- --seed ${seed} --path ${path} --only ${quoted(name)}${
    commands === undefined ? "" : ` --commands ${quoted(commands)}`
  }`;

/** Model-based runs print the path through their commands; without it the same commands are not drawn again. */
const commandsIn = (report: string): string | undefined => /replayPath="([^"]*)"/.exec(report)?.[1];

/** Draws the cases. `null`: the law held for each of them. Throws when it drew none, for that would prove nothing. */
export const examine = async (
  name: string,
  property: Property,
  runs: Runs = DEFAULT_RUNS,
  budget: Budget = BUDGET,
  /** Whether a failing case is made smaller; not worth the time where it is enough to know that there is one. */
  shrinks = true,
): Promise<Finding | null> => {
  const { seed } = budget;
  const numRuns = runsOf(budget, runs);
  const details = await fc.check(property as fc.IAsyncProperty<unknown>, {
    seed,
    numRuns,
    endOnFailure: !shrinks,
    ...(budget.path === undefined ? {} : { path: budget.path, endOnFailure: true }),
  });
  if (!details.failed) {
    if (details.numRuns === 0) throw new Error(`${name}: no case was drawn, so nothing was judged.`);
    return null;
  }
  const report = (await fc.asyncDefaultReportMessage(details)) ?? "no report";
  const path = details.counterexamplePath ?? "0";
  const why = details.errorInstance instanceof Error ? details.errorInstance.message : "the predicate said false";
  const message = `${report}\n\nWhy: ${why}\n\nReplay: ${replayLine(seed, path, name, commandsIn(report))}`;
  return { path, message };
};

/**
 * Registers the law under a name that is its promise. The property is made afresh for each run (schedulers and models hold
 * state), from the path through its commands when one is replayed.
 */
export const law = (name: string, property: (commands?: string) => Property, runs?: Runs): void => {
  test(`${name} [seed ${BUDGET.seed}]`, { timeout: TIMEOUT_MS }, async () => {
    const finding = await examine(name, property(BUDGET.commands), runs);
    if (finding !== null) throw new Error(finding.message);
  });
};
