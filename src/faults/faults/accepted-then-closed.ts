/**
 * A balancer with nothing behind it: the connection is accepted, and closed as soon as the request comes. Unlike a
 * refused connection this looks healthy to a connection pool. No byte reaches the dependency.
 */
import { type FaultMaker, toxicFault } from "../fault.ts";

export const acceptedThenClosed: FaultMaker = {
  name: "accepted-then-closed",
  stream: "upstream",
  make: () =>
    toxicFault(
      {
        name: "accepted-then-closed",
        stream: "upstream",
        what: "connections are accepted and closed when the request comes; nothing reaches the dependency",
        shows: (seen) => seen.connected && seen.bytes === 0 && (seen.ended === "closed" || seen.ended === "reset"),
      },
      { type: "limit_data", attributes: { bytes: 0 } },
    ),
};
