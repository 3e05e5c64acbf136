/**
 * Whether a request goes out on a connection that was made for it. undici says on a diagnostics channel that a connection is
 * there, and writes the request that it was made for in the same turn; whatever it writes at any other time goes out on a
 * connection that was there before. This holds through a proxy as well.
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

/** To be asked while a request is about to be written; true once for each connection. */
export const isFirstOnConnection = (): boolean => {
  const was = isFresh;
  isFresh = false;
  return was;
};

/** The versions of HTTP that connections of this process to the address agreed upon since it was asked last. */
export const takeProtocols = (baseUrl: string): Protocol[] => {
  const { host } = new URL(baseUrl);
  const taken = [...(agreed.get(host) ?? [])].sort();
  agreed.delete(host);
  return taken;
};
