/** Faults of the way from the API to the key service. Records may serve on from a cache for the revocation budget. */
import { ofLink } from "./experiment-entry.ts";

export const KEYS_EXPERIMENTS = ofLink("keys", [
  {
    fault: "refused",
    refuses: "all",
    meets: ["cold-keys"],
    holds: "once the cached record is too old a call is refused with 503, and never with 401",
  },
  {
    fault: "accepted-then-closed",
    refuses: "all",
    meets: ["cold-keys"],
    holds: "a connection that looks healthy and is closed counts as no answer: 503",
  },
  {
    fault: "request-lost",
    refuses: "all",
    meets: ["cold-keys"],
    holds: "silence ends at the key service's budget with 503",
  },
  {
    fault: "reply-lost",
    refuses: "all",
    meets: ["cold-keys"],
    holds: "silence ends at the key service's budget with 503",
  },
  {
    fault: "reset",
    refuses: "all",
    meets: ["cold-keys"],
    holds: "a connection that is reset is no answer: 503, and not an unknown key",
  },
  {
    fault: "slow-within-budget",
    refuses: "none",
    load: "few-keys",
    holds: "an answer inside the budget is an answer: nothing is refused, and calls by one key share one look-up",
  },
  {
    fault: "slow-beyond-budget",
    refuses: "all",
    meets: ["cold-keys"],
    holds: "an answer beyond the budget is none: 503",
  },
  {
    fault: "truncated-reply",
    refuses: "some",
    holds: "an answer that is cut short is none: 503, and not an unknown key",
  },
  {
    fault: "trickle",
    refuses: "some",
    holds: "the budget bounds the whole answer and not each of its pieces: 503",
  },
  {
    fault: "flapping",
    refuses: "some",
    holds: "calls are decided while the link is up or a record is fresh, and refused with 503 otherwise",
  },
]);
