/** One writer for all three streams. */
import type { Mutant } from "./mutant.ts";

export const speaksControlEverywhere: Mutant = {
  name: "speaks-control-everywhere",
  harm: "summaries and popups stay empty: their clients ignore names that they do not know, as the contract asks",
  kills: ["stream-vocabularies-differ", "streams-end-once"],
  stage: "streams",
  spoil: (healthy) => ({
    ...healthy,
    voice: {
      ...healthy.voice,
      script: (request) => healthy.voice.script({ ...request, kind: "control" }),
    },
  }),
};
