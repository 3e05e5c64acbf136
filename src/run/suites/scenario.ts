/** One scenario as a suite of its own (`load SCENARIO`): the stage that a suite has of it, or one by what its story does. */

import type { LoadStage } from "../../stages/stage-plan.ts";
import { EVERYWHERE, METERS, STREAMS } from "../../stages/stage-plan.ts";
import { STORIES } from "../../workload/catalogue.ts";
import type { Story } from "../../workload/story.ts";
import { DISTURBED } from "./disturbed.ts";
import {
  chatPastCapacity,
  noisyNeighbour,
  rateLimitEdge,
  spikeAndRecover,
  steadyMix,
  tileQuotaStampede,
} from "./parts.ts";

const DEFAULT_S = 15;

const KNOWN: ReadonlyMap<string, LoadStage> = new Map(
  [
    chatPastCapacity(DEFAULT_S),
    noisyNeighbour(DEFAULT_S),
    rateLimitEdge(DEFAULT_S),
    spikeAndRecover(DEFAULT_S),
    steadyMix(DEFAULT_S),
    tileQuotaStampede(),
    ...DISTURBED,
  ].map((stage) => [stage.story, stage]),
);

/** Judges beside those of every stage, for scenarios that no suite has. */
const JUDGES: Readonly<Record<string, readonly string[]>> = {
  smoke: [...STREAMS, ...METERS, "session-lifetime-is-bounded"],
  "catalog-reads": [],
  "session-storm": ["session-lifetime-is-bounded"],
};

/** What a user may say of the stage. */
export type ScenarioWish = Partial<
  Pick<
    LoadStage,
    | "driver"
    | "ratePerS"
    | "durationS"
    | "arrivals"
    | "loadProfile"
    | "replayOfMs"
    | "replayed"
    | "segments"
    | "fold"
    | "precise"
  >
>;

export const SCENARIOS: readonly Story[] = [...STORIES.values()];

/** `null`: there is no such scenario. What it has to reach is left to its story. */
export const scenarioStage = (name: string, wish: ScenarioWish): LoadStage | null => {
  if (!STORIES.has(name)) return null;
  const known = KNOWN.get(name);
  const { reaches: _, ...stage }: LoadStage = known ?? {
    kind: "load",
    name,
    story: name,
    driver: "open-loop",
    judges: [...EVERYWHERE, ...(JUDGES[name] ?? STREAMS)],
    objectives: true,
  };
  return { ...stage, ...wish, ...(wish.driver === undefined ? {} : { driverNamed: true as const }) };
};
