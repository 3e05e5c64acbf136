/** The request vanishes: the operation was not done, and the caller cannot know. */
import { type FaultMaker, toxicFault } from "../fault.ts";

export const requestLost: FaultMaker = {
  name: "request-lost",
  stream: "upstream",
  make: () =>
    toxicFault(
      {
        name: "request-lost",
        stream: "upstream",
        what: "requests vanish on their way: not done, and nothing comes back",
        shows: (seen) => seen.connected && seen.ended === "silent" && seen.bytes === 0,
      },
      { type: "timeout", attributes: { timeout: 0 } },
    ),
};
