/** What CI runs every night: all rules, an ordinary day, five minutes of the soak, every overload, and every fault that a link can have. */
import { EXPERIMENTS } from "../../chaos/experiments/catalogue.ts";
import type { StagePlan } from "../stages/stage-plan.ts";
import {
  afterLoad,
  brokenLink,
  chatPastCapacity,
  noisyNeighbour,
  rateLimitEdge,
  spikeAndRecover,
  steadyMix,
  tileQuotaStampede,
  verifyStage,
} from "./parts.ts";
import { soakMix } from "./soak.ts";
import type { Suite } from "./suite.ts";

export const nightly: Suite = {
  name: "nightly",
  purpose: "all rules, an ordinary day, every overload, every fault of a link: at most 30 minutes",
  stages: (given): StagePlan[] => [
    verifyStage(given),
    steadyMix(120),
    soakMix(given, "soak", 300, 0),
    rateLimitEdge(30),
    chatPastCapacity(120),
    noisyNeighbour(60),
    spikeAndRecover(120),
    tileQuotaStampede(),
    ...[...EXPERIMENTS.values()].map((experiment) => brokenLink(given, experiment)),
    ...afterLoad(given),
  ],
};
