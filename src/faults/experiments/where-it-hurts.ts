/** Faults at the moments at which one call too many, or one refund too few, costs somebody money. */
import type { Breakage, ExperimentEntry } from "./experiment-entry.ts";

const REPLY_LOST: Breakage = { by: "link", link: "limiter", fault: "reply-lost" };

export const WHERE_IT_HURTS: readonly ExperimentEntry[] = [
  {
    name: "last-unit-reply-lost",
    breaks: [REPLY_LOST],
    refuses: "all",
    load: "last-units",
    meets: ["last-unit", "refund-under-way"],
    holds: "a mint that takes the last map load and hears nothing is refused, and one mint has it afterwards",
  },
  {
    name: "month-edge-reply-lost",
    breaks: [{ by: "clock", link: "service", fault: "new-month" }, REPLY_LOST],
    refuses: "all",
    load: "last-units",
    meets: ["month-edge", "refund-under-way"],
    holds:
      "what was charged before a month's edge is given back to that month, and the new one begins with nothing used",
  },
  {
    name: "api-restarted-unsettled",
    breaks: [
      { by: "process", link: "limiter", fault: "stopped" },
      { by: "process", link: "api", fault: "restarted-unsettled" },
    ],
    refuses: "some",
    load: "streams",
    meets: ["refund-under-way"],
    // The API ends when its refunds are confirmed, which takes a limiter.
    healsInOrder: true,
    holds: "told to end while the limiter is silent, the API stays until its refunds are confirmed",
  },
];
