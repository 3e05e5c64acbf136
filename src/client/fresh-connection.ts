/**
 * Whether a request goes out on a connection that was made for it. undici says on a diagnostics channel that a connection is
 * there, and writes the request that it was made for in the same turn; whatever it writes at any other time goes out on a
 * connection that was there before. This holds through a proxy as well.
 */
import { subscribe } from "node:diagnostics_channel";

let isFresh = false;

subscribe("undici:client:connected", () => {
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
