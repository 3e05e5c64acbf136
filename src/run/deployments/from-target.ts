/** The deployment that a target file names. */
import { dirname, resolve } from "node:path";
import { openToxiproxy } from "../../chaos/toxiproxy.ts";
import { isLoopbackHost } from "../../contract/loopback.ts";
import type { Target } from "../../target/target.ts";
import type { PreparedTarget } from "../prepare-target.ts";
import type { RunContext } from "../run-context.ts";
import type { Deployment, FaultProxies, LinkName } from "./deployment.ts";

const CALL_MS = 3_000;

/** A listener on every address is reached where toxiproxy's API is. */
const reachable = (listen: string, apiUrl: string): string => {
  const port = listen.slice(listen.lastIndexOf(":") + 1);
  const host = listen.slice(0, listen.lastIndexOf(":"));
  const isEverywhere = host === "" || host === "0.0.0.0" || host === "[::]" || host === "::";
  return isEverywhere ? `${new URL(apiUrl).hostname}:${port}` : listen;
};

/** Why no fault may be put on this toxiproxy from here; `null` where one may. */
export const remoteProxy = ({ toxiproxy }: Target): string | null => {
  const host = toxiproxy === undefined ? "127.0.0.1" : new URL(toxiproxy.api_url).hostname;
  if (isLoopbackHost(host)) return null;
  return `toxiproxy.api_url is on ${host}: a fault there has to be healed also when this machine is cut off, by a watchdog beside the proxy (\`chaos --watchdog\`, which is not built yet); run floodgate on that host, with toxiproxy on loopback`;
};

const openProxies = async (
  target: Target,
  signal: AbortSignal,
): Promise<{ proxies: FaultProxies } | { missing: string }> => {
  if (target.toxiproxy === undefined) return { missing: "`toxiproxy` is not in the target file" };
  if (target.permits?.chaos !== true) return { missing: "permits.chaos of the target file is not true" };
  const { api_url, proxies } = target.toxiproxy;
  const remote = remoteProxy(target);
  if (remote !== null) return { missing: remote };
  const toxiproxy = openToxiproxy(api_url, { signal, callMs: CALL_MS });
  const links: FaultProxies["links"] = {};
  try {
    for (const [link, name] of Object.entries(proxies) as [LinkName, string | undefined][]) {
      if (name === undefined) continue;
      const { listen } = await toxiproxy.proxy(name).read();
      links[link] = { proxy: name, listen: reachable(listen, api_url) };
    }
    // A proxy that is not ours is mended by its own name alone; the rest of the server is never reset.
    return { proxies: { toxiproxy, links, mayReset: false } };
  } catch (error) {
    await toxiproxy.close();
    return { missing: `the toxiproxy of the target file cannot be used: ${(error as Error).message}` };
  }
};

export const fromTarget = async (context: RunContext, prepared: PreparedTarget): Promise<Deployment> => {
  const { file, target, secrets, lease } = prepared;
  const opened = await openProxies(target, context.signal);
  if ("proxies" in opened) {
    const { toxiproxy } = opened.proxies;
    context.supervisor.registerUndo("close the connection to toxiproxy", () => toxiproxy.close());
  }
  return {
    target,
    secrets,
    lease,
    folder: dirname(resolve(file)),
    embedded: false,
    reference: false,
    exclusive: target.exclusive === true,
    found: {},
    faults: "proxies" in opened ? opened.proxies : null,
    faultsMissing: "missing" in opened ? opened.missing : "",
  };
};
