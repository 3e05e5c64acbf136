/** Every story by name, for `load SCENARIO` and the runner. */
import { brokenDependency, brokenEdge, lastUnits } from "./stories/beside-faults.ts";
import { findKnee, findReadKnee } from "./stories/find-knee.ts";
import {
  brownout,
  capacityHalved,
  chatPastCapacity,
  coldStartUnderLoad,
  heavyTailStreams,
  leavingReaders,
  replicaLost,
  retryStorm,
  rollingDeploy,
  sheddingCurve,
  slowReaders,
  soak,
  spikeAndRecover,
} from "./stories/mixes-and-streams.ts";
import { chatBesideNoisy, noisyNeighbour, noisyNeighbourAlone } from "./stories/noisy.ts";
import { catalogReads, rateLimitEdge, sessionStorm } from "./stories/reads.ts";
import { smoke } from "./stories/smoke.ts";
import { steadyMix } from "./stories/steady-mix.ts";
import { tileQuotaStampede } from "./stories/tile-quota.ts";
import type { Story } from "./story.ts";

const ALL: readonly Story[] = [
  smoke,
  steadyMix,
  catalogReads,
  chatPastCapacity,
  chatBesideNoisy,
  noisyNeighbour,
  noisyNeighbourAlone,
  tileQuotaStampede,
  rateLimitEdge,
  sessionStorm,
  spikeAndRecover,
  brownout,
  capacityHalved,
  replicaLost,
  rollingDeploy,
  coldStartUnderLoad,
  heavyTailStreams,
  leavingReaders,
  slowReaders,
  retryStorm,
  sheddingCurve,
  soak,
  brokenDependency,
  brokenEdge,
  lastUnits,
  findKnee,
  findReadKnee,
];

export const STORIES: ReadonlyMap<string, Story> = new Map(ALL.map((story) => [story.name, story]));
