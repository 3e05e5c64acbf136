/** Every experiment on a link, by name. Add, do not shrink. */
import { KEYS_EXPERIMENTS } from "./keys.ts";
import { LIMITER_EXPERIMENTS } from "./limiter.ts";
import type { LinkExperiment } from "./link-experiment.ts";

export const EXPERIMENTS: ReadonlyMap<string, LinkExperiment> = new Map(
  [...LIMITER_EXPERIMENTS, ...KEYS_EXPERIMENTS].map((experiment) => [experiment.name, experiment]),
);
