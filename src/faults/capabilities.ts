/** How a deployment can be disturbed, and what it lacks for a disturbance, by name. Known before the deployment is contacted. */
import { isLoopbackHost } from "../contract/loopback.ts";
import type { Deployment, LinkName } from "../deployments/deployment.ts";
import type { Target } from "../target/target.ts";
import { type Disturbance, linksOf } from "./disturbance.ts";
import { type Fault, faultKey } from "./fault.ts";

export type FaultCapabilities = {
  target: Target;
  isProxied(link: LinkName): boolean;
  /** Why a link is not proxied. */
  proxyMissing: string;
  /** The limiter's store, if this run starts the deployment; `null`: its processes are not ours. */
  ownStore: "sqlite" | "redis" | null;
};

export const capabilitiesOf = ({
  target,
  faults,
  faultsMissing,
  own,
}: Pick<Deployment, "target" | "faults" | "faultsMissing" | "own">): FaultCapabilities => ({
  target,
  isProxied: (link) => faults?.links[link] !== undefined,
  proxyMissing: faultsMissing,
  ownStore: own?.store.kind ?? null,
});

const linkMissing = (link: LinkName, { isProxied, proxyMissing }: FaultCapabilities): string | null => {
  if (isProxied(link)) return null;
  return proxyMissing === "" ? `\`toxiproxy.proxies.${link}\`` : `a fault proxy: ${proxyMissing}`;
};

/** Returns what is missing to inject a fault without commands of the target file; `null` for nothing. */
export const ownWayMissing = (fault: Fault, can: FaultCapabilities): string | null => {
  const commands = `commands for it (\`faults["${faultKey(fault)}"]\`)`;
  if (fault.by === "commands") return commands;
  if (fault.by === "link") return linkMissing(fault.component, can);
  if (can.ownStore !== null) return null;
  return `${commands}: its ${fault.by === "store" ? "store is" : "processes are"} not ours`;
};

/** Names what is missing; empty if the disturbance can be carried out. */
export const disturbanceMissing = (disturbance: Disturbance | undefined, can: FaultCapabilities): string[] => {
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
      return remote === undefined
        ? []
        : [`\`control.api\` on loopback: a change on ${remote} would stay when this machine is cut off`];
    }
  }
};
