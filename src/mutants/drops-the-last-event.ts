/** The connection closed before the last write was flushed. */
import type { Mutant } from "./mutant.ts";

export const dropsTheLastEvent: Mutant = {
  name: "drops-the-last-event",
  harm: "the person reads half an answer, and the client does not notice",
  kills: ["streams-end-once", "streams-cut"],
  stage: "streams",
  spoil: (healthy) => ({
    ...healthy,
    voice: {
      ...healthy.voice,
      script: (request) => healthy.voice.script(request).slice(0, -1),
    },
  }),
};
