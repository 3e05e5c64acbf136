/**
 * A law: what must hold for all inputs, as one vitest test. Its seed stands in the test's title, and a failure ends in the
 * line that replays exactly the failing case.
 */
import { writeFileSync } from "node:fs";
import { test } from "vitest";
import { examine, NoSuchCase, type Property } from "./examine.ts";
import { numberOfLaw } from "./law-numbers.ts";
import { lawOfSeed, type Replay, type Runs, readBudget, runsOf, seedOfLaw } from "./seed.ts";

export const BUDGET = readBudget(process.env);

/** Far more than the quick budget needs on a busy machine; a budget of somebody's own choice may take its time. */
const TIMEOUT_MS = BUDGET.profile === "quick" && BUDGET.runs === null ? 120_000 : 7_200_000;

const DEFAULT_RUNS: Runs = { quick: 300, nightly: 30_000 };

/** What became of a replayed case, for the command that asked for it (replay.ts). */
export type Verdict = { verdict: "failed" | "held" } | { verdict: "no-such-case"; why: string };

const replay = async (property: Property, seed: number, { verdictTo, ...where }: Replay): Promise<void> => {
  const tell = (verdict: Verdict): void => {
    if (verdictTo !== undefined) writeFileSync(verdictTo, JSON.stringify(verdict));
  };
  const finding = await examine(property, { seed, runs: 1, ...where }).catch((error: unknown) => {
    if (error instanceof NoSuchCase) tell({ verdict: "no-such-case", why: error.message });
    throw error;
  });
  tell({ verdict: finding === null ? "held" : "failed" });
  if (finding !== null) throw new Error(finding.message);
};

/**
 * Registers the law under a name that is its promise. The property is made afresh for each run (schedulers and models hold
 * state), from the path through its commands when one is replayed. `skipped`: why it cannot be judged here.
 */
export const law = (
  name: string,
  property: (commands?: string) => Property,
  runs: Runs = DEFAULT_RUNS,
  skipped: string | null = null,
): void => {
  const number = numberOfLaw(name);
  const mine = BUDGET.replay !== null && lawOfSeed(BUDGET.seed) === number;
  const seed = mine ? BUDGET.seed : seedOfLaw(BUDGET.seed, number);
  const title = `${name}${skipped === null ? "" : ` (skipped: ${skipped})`} [seed ${seed}]`;
  test.skipIf(skipped !== null)(title, { timeout: TIMEOUT_MS }, async () => {
    if (mine && BUDGET.replay !== null) return replay(property(BUDGET.replay.commands), seed, BUDGET.replay);
    const finding = await examine(property(), { seed, runs: runsOf(BUDGET, runs) });
    if (finding !== null) throw new Error(finding.message);
  });
};
