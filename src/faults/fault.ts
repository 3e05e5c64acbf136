/**
 * A fault as a value: how a proxied link is broken, how it is mended, and what a client on the link then sees. The last
 * is what keeps a green run honest: a fault that does not show has not been tested against.
 */
import type { LinkSeen } from "../tools/link-probe.ts";
import type { Toxic, ToxicShape, ToxicStream } from "../tools/toxics.ts";
import type { ProxyControl } from "../tools/toxiproxy.ts";
import type { CallOptions } from "../tools/toxiproxy-transport.ts";
import { disablesWhenRemoved, takeToxicAway } from "./take-toxic-away.ts";

export type FaultStream = ToxicStream | "both";

export type Fault = {
  name: string;
  /** `upstream`: the operation never reached the dependency. `downstream`: it was done and the reply is hit. */
  stream: FaultStream;
  /** In one sentence, for people. */
  what: string;
  /** It, or taking it away, disables the proxy, so that healing has to enable it again. */
  disables?: true;
  put: (proxy: ProxyControl, options?: CallOptions) => Promise<void>;
  take: (proxy: ProxyControl, options?: CallOptions) => Promise<void>;
  /** Whether what a client saw on the link can only be explained by this fault being there. */
  shows: (seen: LinkSeen) => boolean;
};

/** What sizes a fault: the time a caller gives the dependency on this link, in milliseconds (target file, `limits`). */
export type FaultSizes = { budgetMs: number };
export type FaultMaker = { name: string; stream: FaultStream; make: (sizes: FaultSizes) => Fault };

/** Our toxics are known by this prefix, so that healing knows them from other people's. */
export const TOXIC_PREFIX = "floodgate-";

/** That a proxy is disabled says nothing of who did it; a toxic without effect does, also when our machine is gone. */
const signOf = (name: string): Toxic => ({
  name: `${TOXIC_PREFIX}${name}`,
  type: "latency",
  stream: "downstream",
  attributes: { latency: 0, jitter: 0 },
});

export const disableAsOurs = async (name: string, proxy: ProxyControl, options?: CallOptions): Promise<void> => {
  await proxy.addToxic(signOf(name), options);
  await proxy.setEnabled(false, options);
};

/** While it is disabled there is no connection that the removal of a toxic could wait for. */
export const enableAgain = async (name: string, proxy: ProxyControl, options?: CallOptions): Promise<void> => {
  await proxy.setEnabled(false, options);
  await proxy.removeToxic(signOf(name).name, options);
  await proxy.setEnabled(true, options);
};

/** A fault made of one toxic. */
export const toxicFault = (
  about: { name: string; stream: ToxicStream; what: string; shows: Fault["shows"] },
  shape: ToxicShape,
): Fault => ({
  ...about,
  ...(disablesWhenRemoved(shape) ? { disables: true } : {}),
  put: (proxy, options) =>
    proxy.addToxic({ ...shape, name: `${TOXIC_PREFIX}${about.name}`, stream: about.stream }, options),
  take: async (proxy, options) => {
    const { enabled } = await proxy.read(options);
    await takeToxicAway(proxy, { ...shape, name: `${TOXIC_PREFIX}${about.name}` }, enabled, options);
  },
});
