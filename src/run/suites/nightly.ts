/** What CI runs every night: all rules, an ordinary day, five minutes of the soak, every overload, and everything that can be broken. */

import { EXPERIMENTS, type Experiment } from "../../faults/experiments.ts";
import type { LoadStage, StagePlan, SuiteFor } from "../../stages/stage-plan.ts";
import { brownout, coldStart, replicaLost, rollingDeploy } from "./disturbed.ts";
import { experimentStage } from "./experiment-stage.ts";
import {
  afterLoad,
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

/** The embedded deployment has one store; of anybody else's it is not known, and what cannot be played is skipped by name. */
const experimentsHere = ({ embedded, limiter = "sqlite" }: SuiteFor): Experiment[] =>
  [...EXPERIMENTS.values()].filter(({ store = limiter }) => !embedded || store === limiter);

/** Half of them by k6: a disturbance is beside any driver. */
const disturbedScenarios = (): LoadStage[] => [
  { ...brownout(), driver: "k6", reaches: ["200", "429 b2b_overloaded"] },
  replicaLost(),
  { ...rollingDeploy(), driver: "k6" },
  coldStart(),
];

export const nightly: Suite = {
  name: "nightly",
  purpose: "all rules, an ordinary day, every overload, everything broken once: at most 30 minutes",
  stages: (given): StagePlan[] => [
    verifyStage(given),
    steadyMix(120),
    soakMix(given, "soak", 300, 0),
    rateLimitEdge(30),
    chatPastCapacity(120),
    noisyNeighbour(60),
    spikeAndRecover(120),
    tileQuotaStampede(),
    ...disturbedScenarios(),
    ...experimentsHere(given).map((experiment) => experimentStage(given, experiment)),
    ...afterLoad(given),
  ],
};
