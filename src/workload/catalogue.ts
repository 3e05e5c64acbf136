/** Every story by its name: what `load SCENARIO` and the runner choose from. */
import { brokenDependency } from "./stories/broken-dependency.ts";
import { brokenEdge } from "./stories/broken-edge.ts";
import { catalogReads } from "./stories/catalog-reads.ts";
import { chatBesideNoisy } from "./stories/chat-beside-noisy.ts";
import { chatPastCapacity } from "./stories/chat-past-capacity.ts";
import { findKnee, findReadKnee } from "./stories/find-knee.ts";
import { lastUnits } from "./stories/last-units.ts";
import {
  brownout,
  coldStartUnderLoad,
  heavyTailStreams,
  leavingReaders,
  replicaLost,
  rollingDeploy,
  slowReaders,
  soak,
  spikeAndRecover,
} from "./stories/mixes-and-streams.ts";
import { noisyNeighbour } from "./stories/noisy-neighbour.ts";
import { rateLimitEdge } from "./stories/rate-limit-edge.ts";
import { retryStorm } from "./stories/retry-storm.ts";
import { sessionStorm } from "./stories/session-storm.ts";
import { smoke } from "./stories/smoke.ts";
import { steadyMix } from "./stories/steady-mix.ts";
import { tileQuotaStampede } from "./stories/tile-quota-stampede.ts";
import type { Story } from "./story.ts";

const ALL: readonly Story[] = [
  smoke,
  steadyMix,
  catalogReads,
  chatPastCapacity,
  chatBesideNoisy,
  noisyNeighbour,
  tileQuotaStampede,
  rateLimitEdge,
  sessionStorm,
  spikeAndRecover,
  brownout,
  replicaLost,
  rollingDeploy,
  coldStartUnderLoad,
  heavyTailStreams,
  leavingReaders,
  slowReaders,
  retryStorm,
  soak,
  brokenDependency,
  brokenEdge,
  lastUnits,
  findKnee,
  findReadKnee,
];

export const STORIES: ReadonlyMap<string, Story> = new Map(ALL.map((story) => [story.name, story]));
