/** The reply vanishes: the operation was done, and the caller cannot know. What was charged must be given back. */
import { type FaultMaker, toxicFault } from "../fault.ts";

export const replyLost: FaultMaker = {
  name: "reply-lost",
  stream: "downstream",
  make: () =>
    toxicFault(
      {
        name: "reply-lost",
        stream: "downstream",
        what: "replies vanish on their way: done, and nothing comes back",
        shows: (seen) => seen.connected && seen.ended === "silent" && seen.bytes === 0,
      },
      { type: "timeout", attributes: { timeout: 0 } },
    ),
};
