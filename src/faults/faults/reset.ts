/**
 * The connection is reset when the reply comes: the operation was done. Connections that were open before see an
 * ordinary end instead, once; toxiproxy resets only those opened while the toxic exists. No delay before the reset,
 * because removing the toxic would wait for it.
 */
import { type FaultMaker, toxicFault } from "../fault.ts";

export const reset: FaultMaker = {
  name: "reset",
  stream: "downstream",
  make: () =>
    toxicFault(
      {
        name: "reset",
        stream: "downstream",
        what: "connections are reset in place of the reply: done, and no answer",
        shows: (seen) => seen.connected && seen.ended === "reset",
      },
      { type: "reset_peer", attributes: { timeout: 0 } },
    ),
};
