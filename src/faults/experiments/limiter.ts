/** Faults of the way from the API to the limiter. */
import { ofLink } from "./experiment-entry.ts";

export const LIMITER_EXPERIMENTS = ofLink("limiter", [
  {
    fault: "refused",
    refuses: "all",
    holds: "every call that needs the limiter is refused with 429 limiter_unavailable",
  },
  {
    fault: "accepted-then-closed",
    refuses: "all",
    holds: "a connection that looks healthy and is closed counts as no answer: 429 limiter_unavailable",
  },
  {
    fault: "request-lost",
    refuses: "all",
    holds: "silence ends at the limiter's budget with 429 limiter_unavailable; nothing was charged",
  },
  {
    fault: "reply-lost",
    refuses: "all",
    meets: ["refund-under-way"],
    holds: "silence ends at the limiter's budget with 429 limiter_unavailable; what the limiter charged is given back",
  },
  {
    fault: "reset",
    refuses: "all",
    holds: "a connection that is reset is no answer: 429 limiter_unavailable; what the limiter charged is given back",
  },
  {
    fault: "slow-within-budget",
    refuses: "none",
    holds: "an answer inside the budget is an answer: nothing is refused because of it",
  },
  {
    fault: "slow-beyond-budget",
    refuses: "all",
    meets: ["refund-under-way"],
    holds: "an answer beyond the budget is none: 429 limiter_unavailable; what the limiter charged is given back",
  },
  {
    fault: "truncated-reply",
    refuses: "some",
    holds: "an answer that is cut short is none: 429 limiter_unavailable; what the limiter charged is given back",
  },
  {
    fault: "trickle",
    refuses: "some",
    holds: "the budget bounds the whole answer and not each of its pieces: 429 limiter_unavailable",
  },
  {
    fault: "flapping",
    refuses: "some",
    holds: "calls are decided while the link is up and refused with 429 limiter_unavailable while it is down",
  },
]);
