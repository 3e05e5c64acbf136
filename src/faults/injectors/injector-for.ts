/** Chooses how a fault is injected: proxies and processes of the deployment, or commands of its target file. */
import type { Held, RemoteWatch } from "../../deployments/remote-watch.ts";
import { capabilitiesOf, ownWayMissing } from "../capabilities.ts";
import type { DisturbanceContext, Faults } from "../disturbance.ts";
import { type Fault, faultKey } from "../fault.ts";
import { commandInjector } from "./commands.ts";
import { atOnce, type FaultInjector, NoWayError } from "./injector.ts";
import { linkInjector } from "./link.ts";
import { operatorInjector } from "./operator.ts";
import { processInjector } from "./process.ts";
import { storeInjector } from "./stores.ts";

/** `null`: only commands can inject it. */
const ownInjector = async (fault: Fault, beside: DisturbanceContext): Promise<FaultInjector | null> => {
  const { deployment } = beside;
  const { faults, own, target } = deployment;
  if (fault.by === "link") {
    const link = faults?.links[fault.component];
    return faults === null || link === undefined ? null : linkInjector(fault, deployment, faults, link);
  }
  if (own === undefined || fault.by === "commands") return null;
  if (fault.by === "process") return processInjector(fault, own, target.control?.api);
  return fault.by === "store"
    ? storeInjector(fault.fault, own)
    : operatorInjector(fault.fault, { target, own, beside });
};

/** Registers the fault with the watchdog beside the proxy, from before the injection until it is healed. */
const heldRemotely = (injector: FaultInjector, fault: Fault, watch: RemoteWatch): FaultInjector => {
  const { undo } = injector;
  const held: Held =
    undo.how === "heal-proxy" ? { proxy: undo.proxy, disables: undo.disables } : { fault: faultKey(fault) };
  return {
    ...injector,
    inject: async (signal) => {
      await watch.hold(held);
      await injector.inject(signal);
    },
    heal: async (signal) => {
      const did = await injector.heal(signal);
      await watch.release(held);
      return did;
    },
  };
};

const injectorOf = async (fault: Fault, beside: DisturbanceContext): Promise<FaultInjector> => {
  const { deployment, stage } = beside;
  const injector = (await ownInjector(fault, beside)) ?? (await commandInjector(fault, beside));
  if (injector === null) throw new NoWayError(`${stage} needs ${ownWayMissing(fault, capabilitiesOf(deployment))}`);
  const { remoteWatch } = deployment;
  return remoteWatch === undefined ? injector : heldRemotely(injector, fault, remoteWatch);
};

/** Throws if the deployment cannot inject one of the faults. */
export const injectorFor = async (
  { faults, healsInOrder }: Faults,
  beside: DisturbanceContext,
): Promise<FaultInjector> => {
  const parts: FaultInjector[] = [];
  for (const fault of faults) parts.push(await injectorOf(fault, beside));
  return atOnce(parts, healsInOrder);
};
