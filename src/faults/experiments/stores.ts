/** The limiter's store answers with errors, or not in time, while every process and every link is well. */
import type { ExperimentEntry, StoreErrorName } from "./experiment-entry.ts";

const entry = (
  store: "redis" | "sqlite",
  fault: StoreErrorName,
  refuses: ExperimentEntry["refuses"],
  holds: string,
): ExperimentEntry => ({
  name: `limiter-${fault}`,
  breaks: [{ by: "store", link: "limiter", fault }],
  refuses,
  holds,
  store,
});

export const STORE_EXPERIMENTS: readonly ExperimentEntry[] = [
  entry("redis", "oom", "all", "Redis takes no more writes: 429 limiter_unavailable, and nothing is charged by half"),
  entry("redis", "readonly", "all", "Redis became a replica: 429 limiter_unavailable until it is a master again"),
  entry(
    "redis",
    "loading",
    "all",
    "Redis reads its files after a kill: 429 limiter_unavailable; nothing charged is lost",
  ),
  entry(
    "redis",
    "noscript",
    "none",
    "Redis forgets the scripts, over and over: they are loaded again, and charge once",
  ),
  entry(
    "redis",
    "aof-slow",
    "all",
    "writes wait as behind a slow disk: refused at the limiter's budget, and given back",
  ),
  entry("sqlite", "locked", "some", "somebody else holds the file: what cannot be charged in time is refused"),
  entry(
    "sqlite",
    "disk-full",
    "some",
    "no file can be written: what cannot be charged is refused, and is not charged later",
  ),
];
