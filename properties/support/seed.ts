/**
 * The one place that says how many cases a property draws and from which seed, so that two runs of one commit judge the
 * same cases and a failure can be replayed. Settings come from the environment, because vitest starts its own workers:
 *
 *   FLOODGATE_PROPERTY_SEED      an integer; default below, the same on every machine
 *   FLOODGATE_PROPERTY_PROFILE   quick (default) or nightly
 *   FLOODGATE_PROPERTY_RUNS      cases of every property, whatever the profile says
 *   FLOODGATE_PROPERTY_PATH, FLOODGATE_PROPERTY_COMMANDS   set by `npm run properties` to replay one case
 */

export type Budget = { seed: number; profile: "quick" | "nightly"; runs: number | null } & Partial<Replay>;
export type Replay = { path: string; commands: string };

/** Cases of one property in each profile. */
export type Runs = { quick: number; nightly: number };

const DEFAULT_SEED = 20_261;

const integer = (name: string, text: string | undefined): number | null => {
  if (text === undefined || text === "") return null;
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new Error(`${name} should be an integer, but is "${text}".`);
  return value;
};

/** Throws, in one sentence, on a value that it cannot read: a wrong seed must not silently judge other cases. */
export const readBudget = (env: Readonly<Record<string, string | undefined>>): Budget => {
  const profile = env.FLOODGATE_PROPERTY_PROFILE || "quick";
  if (profile !== "quick" && profile !== "nightly") {
    throw new Error(`FLOODGATE_PROPERTY_PROFILE should be quick or nightly, but is "${profile}".`);
  }
  const runs = integer("FLOODGATE_PROPERTY_RUNS", env.FLOODGATE_PROPERTY_RUNS);
  if (runs !== null && runs < 1) throw new Error(`FLOODGATE_PROPERTY_RUNS should be at least 1, but is ${runs}.`);
  const seed = integer("FLOODGATE_PROPERTY_SEED", env.FLOODGATE_PROPERTY_SEED) ?? DEFAULT_SEED;
  const budget: Budget = { seed, profile, runs };
  if (env.FLOODGATE_PROPERTY_PATH) budget.path = env.FLOODGATE_PROPERTY_PATH;
  if (env.FLOODGATE_PROPERTY_COMMANDS) budget.commands = env.FLOODGATE_PROPERTY_COMMANDS;
  return budget;
};

export const runsOf = (budget: Budget, runs: Runs): number => budget.runs ?? runs[budget.profile];
