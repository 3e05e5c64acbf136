/** Five again under a load that fills the in-flight cap while the dependency is silent: shedding and refunds at once. */
import type { ExperimentEntry } from "./experiment-entry.ts";

export const PAST_THE_CAP = [
  ...["limiter-reply-lost", "limiter-slow-beyond-budget", "limiter-stopped"],
  ...["keys-request-lost", "keys-stopped"],
] as const;

export const pastTheCap = (entry: ExperimentEntry): ExperimentEntry => ({
  ...entry,
  name: `${entry.name}-past-the-cap`,
  holds: `${entry.holds}; beyond the cap on calls in flight, 429 b2b_overloaded, and only there`,
  meets: [...(entry.meets ?? []), "shedding"],
  pastTheCap: true,
});
