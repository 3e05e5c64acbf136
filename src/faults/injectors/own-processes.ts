/** Faults of a process that this run started: it is killed, stopped or ended, and restarted on the same ports and store. */
import { readGauges } from "../../client/control-planes.ts";
import type { OwnParts, Part } from "../../deployments/deployment.ts";
import { waitUntil } from "../../supervision/waiting.ts";
import { type LinkSeen, observeLink } from "../../tools/link-probe.ts";
import type { Fault, OwnInjector } from "../fault.ts";

type ProcessFault = Extract<Fault, { by: "process" }>;

const GIVE_UP_MS = 500;
/** How long to wait for `UNSETTLED` open refunds, which begin when the API gives up its first calls. */
const UNSETTLED_MS = 5_000;
const UNSETTLED = 5;

const partOf = (own: OwnParts, { component, replica = 0 }: ProcessFault): Part => {
  if (component !== "api") return own[component];
  const part = own.apis[replica];
  if (part === undefined) throw new Error(`there is no replica ${replica + 1} of the API`);
  return part;
};

const untilRefundsAreUnderWay = async (apis: readonly string[], signal: AbortSignal): Promise<void> => {
  const areUnderWay = async (): Promise<boolean> =>
    (await readGauges(apis)).reduce((sum, { unsettled = 0 }) => sum + unsettled, 0) >= UNSETTLED;
  const { met } = await waitUntil(areUnderWay, { forMs: UNSETTLED_MS, pollMs: 10, signal });
  if (!met) throw new Error("no refund was in progress when the process was to be ended");
};

type Way = {
  inject(part: Part, apis: readonly string[], signal: AbortSignal): Promise<void>;
  shows(seen: LinkSeen, part: Part): boolean;
};

const isGone: Way["shows"] = ({ ended }, part) => ended === "refused" && !part.isRunning();

const WAYS: Readonly<Record<ProcessFault["fault"], Way>> = {
  killed: { inject: (part) => part.kill(), shows: isGone },
  restarted: { inject: (part) => part.endInOrder(), shows: isGone },
  "restarted-unsettled": {
    inject: async (part, apis, signal) => {
      await untilRefundsAreUnderWay(apis, signal);
      part.askToEnd();
    },
    // The process stops listening at once, and exits when its refunds are confirmed.
    shows: ({ ended }) => ended === "refused",
  },
  stopped: {
    inject: async (part) => part.stop(),
    // The kernel accepts the connection; the stopped process does not answer.
    shows: ({ ended, connected }) => ended === "silent" && connected,
  },
};

/** `apis`: the replicas' control planes. */
export const processInjector = (fault: ProcessFault, own: OwnParts, apis: readonly string[] = []): OwnInjector => {
  const part = partOf(own, fault);
  const way = WAYS[fault.fault];
  return {
    inject: (signal) => way.inject(part, apis, signal),
    shows: async () => way.shows(await observeLink(part.probe(GIVE_UP_MS)), part),
    heal: async (signal) => void (await part.bringBack(signal)),
  };
};
