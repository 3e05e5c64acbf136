/** Every experiment, by name. Add, do not shrink. */
import { AT_ONCE_EXPERIMENTS } from "./at-once.ts";
import { EDGE_EXPERIMENTS } from "./edge.ts";
import type { ExperimentEntry } from "./experiment-entry.ts";
import { KEYS_EXPERIMENTS } from "./keys.ts";
import { LIMITER_EXPERIMENTS } from "./limiter.ts";
import { PAST_THE_CAP, pastTheCap } from "./past-the-cap.ts";
import { PROCESS_EXPERIMENTS } from "./processes.ts";
import { STORE_EXPERIMENTS } from "./stores.ts";
import { WHERE_IT_HURTS } from "./where-it-hurts.ts";

const BELOW_THE_CAP: readonly ExperimentEntry[] = [
  ...LIMITER_EXPERIMENTS,
  ...KEYS_EXPERIMENTS,
  ...PROCESS_EXPERIMENTS,
  ...STORE_EXPERIMENTS,
  ...AT_ONCE_EXPERIMENTS,
  ...EDGE_EXPERIMENTS,
  ...WHERE_IT_HURTS,
];

export const EXPERIMENTS: ReadonlyMap<string, ExperimentEntry> = new Map(
  [
    ...BELOW_THE_CAP,
    ...BELOW_THE_CAP.filter(({ name }) => PAST_THE_CAP.some((one) => one === name)).map(pastTheCap),
  ].map((entry) => [entry.name, entry]),
);
