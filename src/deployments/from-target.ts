/** The deployment that a target file names. */

import { dirname, resolve } from "node:path";
import { isLoopbackHost } from "../contract/loopback.ts";
import type { Target } from "../target/target.ts";
import { reachableListener } from "../tools/link-probe.ts";
import { openToxiproxy } from "../tools/toxiproxy.ts";
import type { Deployment, FaultProxies, LinkName, RunContext } from "./deployment.ts";
import { openRemoteWatch, type RemoteWatch } from "./remote-watch.ts";

const CALL_MS = 3_000;

const HOW_TO_WATCH =
  "has to be healed also when this machine is cut off: run `floodgate chaos --watchdog --target FILE` beside it and name it in the target file as `watchdog`; or run floodgate on that host, with everything on loopback";

/** Says why no fault may be injected from here; `null` if one may. Commands are taken to act on the target's host. */
export const remoteProxy = ({ toxiproxy, faults = {}, base_url, watchdog }: Target): string | null => {
  if (watchdog !== undefined) return null;
  const host = toxiproxy === undefined ? "127.0.0.1" : new URL(toxiproxy.api_url).hostname;
  if (!isLoopbackHost(host)) return `toxiproxy.api_url is on ${host}: a fault there ${HOW_TO_WATCH}`;
  const { hostname } = new URL(base_url);
  const isByCommands = Object.keys(faults).length > 0;
  return isByCommands && !isLoopbackHost(hostname)
    ? `the deployment is on ${hostname}: what a command of its faults breaks there ${HOW_TO_WATCH}`
    : null;
};

/** Says why no proxy can be used; `null` if one can, as far as the target file shows. */
export const proxiesMissing = (target: Target): string | null => {
  if (target.toxiproxy === undefined) return "`toxiproxy` is not in the target file";
  return target.permits?.chaos === true ? remoteProxy(target) : "permits.chaos of the target file is not true";
};

type Prepared = Pick<Deployment, "target" | "secrets" | "budget"> & { file: string };

/** Prepares the lease with the watchdog; the first fault takes it. */
const openWatch = async (context: RunContext, { target, secrets }: Prepared): Promise<RemoteWatch | undefined> => {
  const { watchdog, permits } = target;
  if (watchdog === undefined || permits?.chaos !== true) return undefined;
  const token = watchdog.token === undefined ? null : await secrets.read(watchdog.token, "watchdog.token");
  const watch = openRemoteWatch({ url: watchdog.url, token, holder: `run ${context.run}` });
  context.supervisor.registerUndo("end the lease with the watchdog beside the proxy", () => watch.close());
  return watch;
};

const openProxies = async (context: RunContext, target: Target) => {
  const missing = proxiesMissing(target);
  if (missing !== null) return { faults: null, faultsMissing: missing };
  const { api_url, proxies } = target.toxiproxy as NonNullable<Target["toxiproxy"]>;
  const toxiproxy = openToxiproxy(api_url, { signal: context.signal, callMs: CALL_MS });
  const links: FaultProxies["links"] = {};
  try {
    for (const [link, name] of Object.entries(proxies ?? {}) as [LinkName, string | undefined][]) {
      if (name === undefined) continue;
      const { listen } = await toxiproxy.proxy(name).read();
      links[link] = { proxy: name, listen: reachableListener(listen, api_url) };
    }
  } catch (error) {
    await toxiproxy.close();
    const faultsMissing = `the toxiproxy of the target file cannot be used: ${(error as Error).message}`;
    return { faults: null, faultsMissing };
  }
  context.supervisor.registerUndo("close the connection to toxiproxy", () => toxiproxy.close());
  // The toxiproxy is not ours, so only the named proxies are healed and the server is never reset.
  const faults: FaultProxies = { toxiproxy, links, mayReset: false };
  return { faults, faultsMissing: "" };
};

export const fromTarget = async (context: RunContext, prepared: Prepared): Promise<Deployment> => {
  const { target, secrets, budget } = prepared;
  const file = resolve(prepared.file);
  const faults = await openProxies(context, target);
  return {
    ...{ target, secrets, budget, file, folder: dirname(file) },
    ...{ embedded: false, reference: false, exclusive: target.exclusive === true, found: {} },
    ...faults,
    remoteWatch: await openWatch(context, prepared),
  };
};
