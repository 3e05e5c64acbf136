/**
 * Decides how many cases every property draws and from which seed, so that two runs of one commit judge the same cases and
 * a failure can be replayed. Settings come from the environment, because vitest starts its own workers:
 *
 *   FLOODGATE_PROPERTY_SEED      an integer; default below, the same on every machine
 *   FLOODGATE_PROPERTY_PROFILE   quick (default) or nightly
 *   FLOODGATE_PROPERTY_RUNS      cases of every property, whatever the profile says
 *   FLOODGATE_PROPERTY_PATH, FLOODGATE_PROPERTY_COMMANDS, FLOODGATE_PROPERTY_VERDICT
 *                                set by `npm run properties` to replay one case
 */

export type Replay = {
  path: string;
  /** Which of a model's commands were run; without this text other commands are drawn. */
  commands?: string;
  /** File for the result of the case. */
  verdictTo?: string;
};
type Budget = { seed: number; profile: "quick" | "nightly"; runs: number | null; replay: Replay | null };

/** Cases of one property in each profile. */
export type Runs = { quick: number; nightly: number };

const DEFAULT_SEED = 20_261;
/** Derives a law's seed from the base and its name (FNV-1a), so that no two laws draw the same numbers. */
export const seedOfLaw = (base: number, name: string): number => {
  let hash = base | 0;
  for (const char of name) hash = Math.imul(hash ^ (char.codePointAt(0) as number), 16_777_619);
  return hash;
};

const integer = (name: string, text: string | undefined): number | null => {
  if (text === undefined || text === "") return null;
  const value = Number(text);
  if (!Number.isSafeInteger(value)) throw new Error(`${name} should be an integer, but is "${text}".`);
  return value;
};

/** Throws on a value that it cannot read, because a wrong seed would silently judge other cases. */
export const readBudget = (env: Readonly<Record<string, string | undefined>>): Budget => {
  const profile = env.FLOODGATE_PROPERTY_PROFILE || "quick";
  if (profile !== "quick" && profile !== "nightly") {
    throw new Error(`FLOODGATE_PROPERTY_PROFILE should be quick or nightly, but is "${profile}".`);
  }
  const runs = integer("FLOODGATE_PROPERTY_RUNS", env.FLOODGATE_PROPERTY_RUNS);
  if (runs !== null && runs < 1) throw new Error(`FLOODGATE_PROPERTY_RUNS should be at least 1, but is ${runs}.`);
  const seed = integer("FLOODGATE_PROPERTY_SEED", env.FLOODGATE_PROPERTY_SEED) ?? DEFAULT_SEED;
  const { FLOODGATE_PROPERTY_PATH: path, FLOODGATE_PROPERTY_COMMANDS: commands } = env;
  if (!path) return { seed, profile, runs, replay: null };
  const replay: Replay = { path };
  if (commands) replay.commands = commands;
  if (env.FLOODGATE_PROPERTY_VERDICT) replay.verdictTo = env.FLOODGATE_PROPERTY_VERDICT;
  return { seed, profile, runs, replay };
};

export const runsOf = ({ runs, profile }: Pick<Budget, "runs" | "profile">, of: Runs): number => runs ?? of[profile];
