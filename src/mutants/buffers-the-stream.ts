/** A middleman that collects the answer and delivers it in one piece. */
import type { Mutant } from "./mutant.ts";

export const buffersTheStream: Mutant = {
  name: "buffers-the-stream",
  harm: "the person stares at nothing for as long as the whole answer takes",
  kills: ["events-are-not-buffered"],
  stage: "streams",
  spoil: (healthy) => ({
    ...healthy,
    voice: {
      ...healthy.voice,
      dueMs: (_i, _n, serviceMs) => serviceMs,
    },
  }),
};
