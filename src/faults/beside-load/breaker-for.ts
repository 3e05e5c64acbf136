/** The way that a deployment has to bring a fault about: its proxies and processes, or the commands of its target file. */

import type { Deployment } from "../../deployments/deployment.ts";
import type { Held, RemoteWatch } from "../../deployments/remote-watch.ts";
import { type Breaker, NoWayError } from "./breaker.ts";
import { breakersAtOnce } from "./breakers-at-once.ts";
import { commandBreaker, faultKey } from "./command-breaker.ts";
import { type DisturbanceContext, type Fault, type OneFault, partsOf } from "./disturbance.ts";
import { linkBreaker } from "./link-breaker.ts";
import { processBreaker } from "./process-breaker.ts";
import { serviceBreaker } from "./service-breaker.ts";
import { storeBreaker } from "./store-breaker.ts";
import { ownWayMissing, waysOf } from "./ways.ts";

const ownBreaker = async (fault: OneFault, beside: DisturbanceContext): Promise<Breaker> => {
  const { faults, own, target } = beside.deployment as Required<Deployment>;
  switch (fault.kind) {
    case "link-fault": {
      const link = faults?.links[fault.link];
      if (faults === null || link === undefined) throw new NoWayError(`there is no proxy on the link ${fault.link}`);
      return linkBreaker(fault, beside, faults, link);
    }
    case "process-fault":
      return processBreaker(fault, own, target.control?.api ?? []);
    case "store-error":
      return storeBreaker(fault, own);
    case "service-change":
      return serviceBreaker(fault, { target, own, beside });
  }
};

/** Held by the watchdog beside what is broken before it is broken, and until it is whole again. */
const heldRemotely = (breaker: Breaker, fault: OneFault, watch: RemoteWatch): Breaker => {
  const { undo } = breaker;
  const held: Held =
    undo.how === "heal-proxy" ? { proxy: undo.proxy, disables: undo.disables } : { fault: faultKey(fault) };
  return {
    ...breaker,
    inject: async (signal) => {
      await watch.hold(held);
      await breaker.inject(signal);
    },
    heal: async (signal) => {
      const did = await breaker.heal(signal);
      await watch.release(held);
      return did;
    },
  };
};

const oneBreaker = async (fault: OneFault, beside: DisturbanceContext): Promise<Breaker> => {
  const missing = ownWayMissing(fault, waysOf(beside.deployment));
  const breaker = missing === null ? await ownBreaker(fault, beside) : await commandBreaker(fault, beside);
  if (breaker === null) throw new NoWayError(`${beside.stage} needs ${missing}`);
  const { remoteWatch } = beside.deployment;
  return remoteWatch === undefined ? breaker : heldRemotely(breaker, fault, remoteWatch);
};

/** Throws a sentence where the deployment has no way to it. */
export const breakerFor = async (fault: Fault, beside: DisturbanceContext): Promise<Breaker> => {
  const parts: Breaker[] = [];
  for (const part of partsOf(fault)) parts.push(await oneBreaker(part, beside));
  return breakersAtOnce(parts, fault.kind === "faults-at-once" && fault.healsInOrder === true);
};
