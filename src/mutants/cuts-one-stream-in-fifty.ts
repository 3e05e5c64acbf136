/** A buffer of a connection that is given back before all of it was written, now and then. */
import type { Mutant } from "./mutant.ts";

const EVERY = 50;

export const cutsOneStreamInFifty: Mutant = {
  name: "cuts-one-stream-in-fifty",
  harm: "one reader in fifty has half of an answer, on a connection that closed in order",
  kills: ["streams-cut", "streams-end-once"],
  stage: "many-streams",
  spoil: (healthy) => {
    let streams = 0;
    return {
      ...healthy,
      voice: {
        ...healthy.voice,
        script: (request) => {
          const frames = healthy.voice.script(request);
          streams += 1;
          return streams % EVERY === 0 ? frames.slice(0, Math.max(1, frames.length >> 1)) : frames;
        },
      },
    };
  },
};
