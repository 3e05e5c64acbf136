/** A renderer that lost its template answers with the right status and type, and nothing else. */
import type { Mutant } from "./mutant.ts";

export const answersEmptyStreams: Mutant = {
  name: "answers-empty-streams",
  harm: "every person who asks is answered with nothing, and each status says that all is well",
  kills: ["streams-end-once"],
  stage: "streams",
  spoil: (healthy) => ({
    ...healthy,
    voice: {
      ...healthy.voice,
      script: () => [],
    },
  }),
};
