/** A kind of stream whose end only the connection shows. */
import type { Mutant } from "./mutant.ts";

export const endsWithoutDone: Mutant = {
  name: "ends-without-done",
  harm: "on a bad line nobody can distinguish an answer that is complete from one that was cut",
  kills: ["streams-end-once", "streams-cut"],
  stage: "streams",
  spoil: (healthy) => ({
    ...healthy,
    voice: {
      ...healthy.voice,
      script: (request) => {
        const frames = healthy.voice.script(request);
        return request.kind === "summary" ? frames.slice(0, -1) : frames;
      },
    },
  }),
};
