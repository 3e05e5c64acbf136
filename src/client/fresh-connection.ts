/**
 * Whether a request goes out on a connection that was made for it. undici says on a diagnostics channel that a connection is
 * there, and writes the request that it was made for in the same turn; whatever it writes at any other time goes out on a
 * connection that was there before. This holds through a proxy as well.
 */
import { subscribe } from "node:diagnostics_channel";
import type { Protocol } from "../history/run-document.ts";

let isFresh = false;

const agreed = new Set<Protocol>();

subscribe("undici:client:connected", (message) => {
  const { socket } = message as { socket?: { alpnProtocol?: string | false | null } };
  agreed.add(socket?.alpnProtocol === "h2" ? "h2" : "h1");
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

/** The versions of HTTP that were agreed upon since it was asked last, by all connections of this process. */
export const takeProtocols = (): Protocol[] => {
  const taken = [...agreed].sort();
  agreed.clear();
  return taken;
};
