/** Kills, stops or ends a process of a deployment that this run started, and brings it back on the same ports and store. */

import type { OwnParts } from "../../deployments/own-parts.ts";
import type { Part } from "../../deployments/part.ts";
import { type LinkSeen, observeLink } from "../../tools/link-probe.ts";
import { type Breaker, NoWayError, wakeUp } from "./breaker.ts";
import type { ProcessFault } from "./disturbance.ts";
import { untilRefundsAreUnderWay } from "./unsettled-refunds.ts";

const GIVE_UP_MS = 500;
/** Refunds begin when the first call was given up. */
const UNSETTLED_MS = 5_000;
const TIMES = { injectMs: 15_000, effectMs: 5_000, healMs: 25_000 };

const partOf = (own: OwnParts, { link, replica = 0 }: Pick<ProcessFault, "link" | "replica">): Part => {
  if (link !== "api") return own[link];
  const part = own.apis[replica];
  if (part === undefined) throw new NoWayError(`there is no replica ${replica + 1} of the API`);
  return part;
};

type Way = {
  /** `apis`: control planes of the replicas. */
  inject(part: Part, apis: readonly string[], signal: AbortSignal): Promise<void>;
  shows(seen: LinkSeen, part: Part): boolean;
};

const isGone = ({ ended }: LinkSeen, part: Part): boolean => ended === "refused" && !part.isRunning();

const WAYS: Readonly<Record<ProcessFault["fault"], Way>> = {
  killed: { inject: (part) => part.kill(), shows: isGone },
  restarted: { inject: (part) => part.endInOrder(), shows: isGone },
  "restarted-unsettled": {
    inject: async (part, apis, signal) => {
      const met = await untilRefundsAreUnderWay(apis, UNSETTLED_MS, signal);
      if (!met) throw new Error("no refund was under way, so there was nothing to end in the middle of");
      part.askToEnd();
    },
    // It no longer listens; whether it is gone is for its refunds to say.
    shows: ({ ended }) => ended === "refused",
  },
  stopped: {
    inject: async (part) => part.stop(),
    // The system takes the connection in its name; nobody answers on it.
    shows: ({ ended, connected }) => ended === "silent" && connected,
  },
};

/** `apis`: control planes of the replicas. */
export const processBreaker = (fault: ProcessFault, own: OwnParts, apis: readonly string[] = []): Breaker => {
  const part = partOf(own, fault);
  const way = WAYS[fault.fault];
  return {
    ...TIMES,
    stream: "both",
    undo: wakeUp(part),
    notes: [],
    inject: (signal) => way.inject(part, apis, signal),
    showsAtPart: async () => way.shows(await observeLink(part.probe(GIVE_UP_MS)), part),
    heal: async (signal) => {
      await part.bringBack(signal);
      return [];
    },
  };
};
