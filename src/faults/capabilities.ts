/** Says by name, before contact, what a deployment lacks for a disturbance, and makes the injector of each fault. */
import { isLoopbackHost } from "../contract/address.ts";
import type { Deployment, LinkName, OwnParts } from "../deployments/deployment.ts";
import type { Held, RemoteWatch } from "../deployments/remote-watch.ts";
import { type Disturbance, type DisturbanceContext, type Faults, linksOf } from "./disturbance.ts";
import { atOnce, endsWithUs, type Fault, type FaultInjector, faultKey } from "./fault.ts";
import { operatorInjector } from "./injectors/operator.ts";
import { processInjector } from "./injectors/own-processes.ts";
import { storeInjector } from "./injectors/own-stores.ts";
import { commandInjector, linkInjector } from "./injectors/proxies-and-commands.ts";

/** A deployment, or what a plan assumes of one that has not been contacted. */
export type Disturbable = Pick<Deployment, "target" | "faultsMissing"> & {
  faults: { links: Partial<Record<LinkName, unknown>> } | null;
  own?: { store: Pick<OwnParts["store"], "kind"> } | undefined;
};

const linkMissing = (link: LinkName, { faults, faultsMissing }: Disturbable): string | null => {
  if (faults?.links[link] !== undefined) return null;
  return faultsMissing === "" ? `\`toxiproxy.proxies.${link}\`` : `a fault proxy: ${faultsMissing}`;
};

/** Returns what is missing to inject a fault without commands of the target file; `null` if nothing is missing. */
const ownWayMissing = (fault: Fault, can: Disturbable): string | null => {
  const commands = `commands for it (\`faults["${faultKey(fault)}"]\`)`;
  if (fault.by === "commands") return commands;
  if (fault.by === "link") return linkMissing(fault.component, can);
  if (can.own !== undefined) return null;
  return `${commands}: its ${fault.by === "store" ? "store is" : "processes are"} not ours`;
};

/** Names what the deployment lacks for the disturbance; empty if it can be carried out. */
export const disturbanceMissing = (disturbance: Disturbance | undefined, can: Disturbable): string[] => {
  const { permits, faults = {}, control } = can.target;
  switch (disturbance?.kind) {
    case undefined:
      return [];
    case "fault-schedule":
      return linksOf(disturbance).flatMap((link) => linkMissing(link, can) ?? []);
    case "faults":
      return disturbance.faults.flatMap((fault) => {
        if (permits?.chaos === true && faults[faultKey(fault)] !== undefined) return [];
        return ownWayMissing(fault, can) ?? [];
      });
    case "operator-changes": {
      const apis = control?.api ?? [];
      if (apis.length === 0) return ["`control.api` (to change the deployment as its operator)"];
      if (permits?.chaos !== true) return ["`permits.chaos` (to change the deployment as its operator)"];
      // On another host nothing would undo the change if the network fails.
      const remote = apis.map((url) => new URL(url).hostname).find((host) => !isLoopbackHost(host));
      const lost = `\`control.api\` on loopback: a change on ${remote} would stay when this machine is cut off`;
      return remote === undefined ? [] : [lost];
    }
  }
};

/** Makes an injector from the deployment's proxies or processes; `null` if only commands can inject the fault. */
const ownInjector = async (fault: Fault, beside: DisturbanceContext): Promise<FaultInjector | null> => {
  const { faults, own, target } = beside.deployment;
  if (fault.by === "link") {
    const link = faults?.links[fault.component];
    return faults === null || link === undefined ? null : linkInjector(fault, beside.deployment, faults, link);
  }
  if (own === undefined || fault.by === "commands") return null;
  if (fault.by === "process") return endsWithUs(processInjector(fault, own, target.control?.api));
  if (fault.by === "store") return endsWithUs(storeInjector(fault.fault, own));
  return endsWithUs(operatorInjector(fault.fault, { target, own, beside }));
};

/** Has the watchdog beside the proxy, if there is one, hold the fault from before the injection until it is healed. */
export const heldRemotely = <Injector extends Pick<FaultInjector, "inject" | "heal" | "undo">>(
  injector: Injector,
  watch: RemoteWatch | undefined,
): Injector => {
  const { undo } = injector;
  if (watch === undefined || (undo.how !== "heal-proxy" && undo.how !== "command")) return injector;
  const held: Held = undo.how === "heal-proxy" ? { proxy: undo.proxy, disables: undo.disables } : { fault: undo.fault };
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

/** Makes one injector of all faults. Throws if the deployment cannot inject one of them. */
export const injectorFor = async (
  { faults, healsInOrder }: Faults,
  beside: DisturbanceContext,
): Promise<FaultInjector> => {
  const { deployment, stage } = beside;
  const parts: FaultInjector[] = [];
  for (const fault of faults) {
    const injector = (await ownInjector(fault, beside)) ?? (await commandInjector(fault, beside));
    if (injector === null) throw new Error(`${stage} needs ${ownWayMissing(fault, deployment)}`);
    parts.push(heldRemotely(injector, deployment.remoteWatch));
  }
  return atOnce(parts, healsInOrder);
};
