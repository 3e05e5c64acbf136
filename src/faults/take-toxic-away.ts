/**
 * Removes a toxic without wedging the server. While toxiproxy removes one it holds a lock, and a toxic that holds data back
 * (latency, slicer, bandwidth) is then waited for until its client has read that data. A client that gave up in that very
 * moment never will, and the whole server hangs for good (its issues 558 and 412). So the data goes first, then the toxic.
 */
import { pause } from "../supervision/waiting.ts";
import type { ToxicEcho } from "../tools/toxics.ts";
import type { CallOptions, ProxyControl } from "../tools/toxiproxy.ts";

/** For what was held back to be written, and for connections without a client to end: so often so long. */
const LOOKS = 3;
const SETTLE_MS = 50;
const SETTLE_MOST_MS = 750;

/** A slicer waits between two pieces, and a connection without a client is noticed with the next piece or the one after. */
const settleMs = ({ attributes }: Pick<ToxicEcho, "attributes">): number =>
  Math.min(SETTLE_MOST_MS, SETTLE_MS + (1.5 * Number(attributes.delay ?? 0)) / 1_000);

/** The server answers in between: on a machine that gives it little time, what passed for us is none that it had. */
const settle = async (proxy: ProxyControl, ms: number, options: CallOptions): Promise<void> => {
  for (let look = 0; look < LOOKS; look += 1) {
    await pause(ms, options.signal);
    await proxy.read(options);
  }
};

/** Whether the proxy is disabled for a moment while this toxic is removed. */
export const disablesWhenRemoved = ({ type }: Pick<ToxicEcho, "type">): boolean =>
  type === "slicer" || type === "bandwidth";

/** `isEnabled`: as the proxy is now; one that is disabled stays so. */
export const takeToxicAway = async (
  proxy: ProxyControl,
  toxic: Pick<ToxicEcho, "name" | "type" | "attributes">,
  isEnabled: boolean,
  options: CallOptions = {},
): Promise<void> => {
  if (toxic.type === "latency") {
    await proxy.updateToxic(toxic.name, { latency: 0, jitter: 0 }, options);
    await settle(proxy, SETTLE_MS, options);
  }
  const down = isEnabled && disablesWhenRemoved(toxic);
  if (down) {
    await proxy.setEnabled(false, options);
    await settle(proxy, settleMs(toxic), options);
  }
  await proxy.removeToxic(toxic.name, options);
  if (down) await proxy.setEnabled(true, options);
};
