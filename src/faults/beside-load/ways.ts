/** What a deployment has to be disturbed by, and what it lacks for a disturbance: by name, also before it is reached. */
import { isLoopbackHost } from "../../contract/loopback.ts";
import type { Deployment, LinkName } from "../../deployments/deployment.ts";
import type { Target } from "../../target/target.ts";
import { faultKey } from "./command-breaker.ts";
import { type Disturbance, faultOf, type OneFault, partsOf } from "./disturbance.ts";
import { linksOf } from "./fault-schedule.ts";

export type Ways = {
  target: Target;
  isProxied(link: LinkName): boolean;
  /** Why a link is not. */
  proxyMissing: string;
  /** Where the limiter keeps its counts, of a deployment that this run starts; `null`: its processes are not ours. */
  ownStore: "sqlite" | "redis" | null;
};

export const waysOf = ({
  target,
  faults,
  faultsMissing,
  own,
}: Pick<Deployment, "target" | "faults" | "faultsMissing" | "own">): Ways => ({
  target,
  isProxied: (link) => faults?.links[link] !== undefined,
  proxyMissing: faultsMissing,
  ownStore: own?.store.kind ?? null,
});

const linkMissing = (link: LinkName, { isProxied, proxyMissing }: Ways): string | null => {
  if (isProxied(link)) return null;
  return proxyMissing === "" ? `\`toxiproxy.proxies.${link}\`` : `a fault proxy: ${proxyMissing}`;
};

/** What is missing to bring a fault about without commands of the target file; `null`: nothing. */
export const ownWayMissing = (fault: OneFault, ways: Ways): string | null => {
  const { ownStore } = ways;
  const commands = `commands for it (\`faults["${faultKey(fault)}"]\`)`;
  if (fault.onlyByCommand === true) return commands;
  switch (fault.kind) {
    case "link-fault":
      return linkMissing(fault.link, ways);
    case "process-fault":
    case "service-change":
      return ownStore === null ? `${commands}: its processes are not ours` : null;
    case "store-error":
      return ownStore === null ? `${commands}: its store is not ours` : null;
  }
};

/** By name; empty when it can be carried out. */
export const disturbanceMissing = (disturbance: Disturbance | undefined, ways: Ways): string[] => {
  if (disturbance === undefined) return [];
  const { permits, faults, control } = ways.target;
  if (disturbance.kind === "fault-schedule") {
    return linksOf(disturbance).flatMap((link) => linkMissing(link, ways) ?? []);
  }
  const fault = faultOf(disturbance);
  if (fault === null) {
    const apis = control?.api ?? [];
    if (apis.length === 0) return ["`control.api` (to change the deployment as its operator)"];
    if (permits?.chaos !== true) return ["`permits.chaos` (to change the deployment as its operator)"];
    const remote = apis.map((url) => new URL(url).hostname).find((host) => !isLoopbackHost(host));
    // Nobody there would put it back.
    return remote === undefined
      ? []
      : [`\`control.api\` on loopback: a change on ${remote} would stay when this machine is cut off`];
  }
  return partsOf(fault).flatMap((part) => {
    if (permits?.chaos === true && faults?.[faultKey(part)] !== undefined) return [];
    return ownWayMissing(part, ways) ?? [];
  });
};
