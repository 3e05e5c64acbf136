/** The process ended as soon as it was asked to. */
import type { Mutant } from "./mutant.ts";

export const dropsStreamsOnDeploy: Mutant = {
  name: "drops-streams-on-deploy",
  harm: "each release cuts every conversation that was going on",
  kills: ["streams-end-once"],
  stage: "deploy",
  spoil: (healthy) => ({
    ...healthy,
    streamsFinishOnStop: false,
  }),
};
