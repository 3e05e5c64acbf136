/**
 * Tells whether a request uses a new connection. undici reports a connection on a diagnostics channel and writes the request that
 * caused it in the same turn of the event loop; requests written at other times use an older connection. Also holds through a
 * proxy.
 */
import { subscribe } from "node:diagnostics_channel";
import type { Protocol } from "../history/run-document.ts";

let isFresh = false;

const agreed = new Map<string, Set<Protocol>>();

subscribe("undici:client:connected", (message) => {
  const { socket, connectParams } = message as {
    socket?: { alpnProtocol?: string | false | null };
    connectParams: { host: string };
  };
  const { host } = connectParams;
  agreed.set(host, (agreed.get(host) ?? new Set<Protocol>()).add(socket?.alpnProtocol === "h2" ? "h2" : "h1"));
  isFresh = true;
  queueMicrotask(() => {
    isFresh = false;
  });
});

/** Called when a request is about to be written. True once per connection. */
export const isFirstOnConnection = (): boolean => {
  const was = isFresh;
  isFresh = false;
  return was;
};

/** HTTP versions that connections to the address negotiated since the last call. */
export const takeProtocols = (baseUrl: string): Protocol[] => {
  const { host } = new URL(baseUrl);
  const taken = [...(agreed.get(host) ?? [])].sort();
  agreed.delete(host);
  return taken;
};
