/** The loop that writes events does not hear that the stream has failed. */
import { writeEvent } from "../contract/streams.ts";
import type { Mutant } from "./mutant.ts";

export const talksAfterError: Mutant = {
  name: "talks-after-error",
  harm: "a client shows the error and goes on typing",
  kills: ["streams-end-once"],
  stage: "streams",
  spoil: (healthy) => ({
    ...healthy,
    voice: {
      ...healthy.voice,
      failure: (error) => healthy.voice.failure(error) + writeEvent("token", { type: "token", text: "and " }),
    },
  }),
};
