/** Slower than the caller waits: the operation was done, the answer comes to nobody. */
import { type FaultMaker, toxicFault } from "../fault.ts";

export const slowBeyondBudget: FaultMaker = {
  name: "slow-beyond-budget",
  stream: "downstream",
  make: ({ budgetMs }) => {
    const latencyMs = budgetMs * 4;
    return toxicFault(
      {
        name: "slow-beyond-budget",
        stream: "downstream",
        what: `replies come ${latencyMs} ms late, beyond the budget of ${budgetMs} ms`,
        shows: (seen) =>
          seen.connected &&
          (seen.firstByteMs === null ? seen.ended === "silent" && seen.doneMs > budgetMs : seen.firstByteMs > budgetMs),
      },
      { type: "latency", attributes: { latency: latencyMs, jitter: 0 } },
    );
  },
};
