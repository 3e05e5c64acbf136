/** An error event with less than the four fields. */
import { ERROR_EVENT, writeEvent } from "../contract/streams.ts";
import type { Mutant } from "./mutant.ts";

export const forgetsThePartialText: Mutant = {
  name: "forgets-the-partial-text",
  harm: "the client has thrown away what it showed and has nothing to put back",
  kills: ["verify/stream-error-event"],
  stage: "verify",
  spoil: (healthy) => ({
    ...healthy,
    voice: {
      ...healthy.voice,
      failure: ({ code, message }) => writeEvent(ERROR_EVENT, { type: "error", code, message }),
    },
  }),
};
