/** Slow, but in time: nothing may be refused because of it. Two fifths of the budget leave room for a busy host. */
import { type FaultMaker, toxicFault } from "../fault.ts";

export const slowWithinBudget: FaultMaker = {
  name: "slow-within-budget",
  stream: "downstream",
  make: ({ budgetMs }) => {
    const latencyMs = Math.round(budgetMs * 0.4);
    return toxicFault(
      {
        name: "slow-within-budget",
        stream: "downstream",
        what: `replies come ${latencyMs} ms late, inside the budget of ${budgetMs} ms`,
        // A timer of the proxy may fire a little early against ours, never by a tenth.
        shows: (seen) => seen.firstByteMs !== null && seen.firstByteMs >= latencyMs * 0.9,
      },
      { type: "latency", attributes: { latency: latencyMs, jitter: 0 } },
    );
  },
};
