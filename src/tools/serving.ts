/** Whether a proxy serves, seen as a caller of it sees it: it takes a connection, and passes it on. */
import { connect, isIP } from "node:net";
import { isLoopbackHost } from "../contract/loopback.ts";
import type { ProxyState } from "./toxiproxy.ts";

/** A listener on every address is reached where toxiproxy's API is. */
export const reachableListener = (listen: string, apiUrl: string): { host: string; port: number } => {
  const colon = listen.lastIndexOf(":");
  const host = listen.slice(0, colon).replace(/^\[|\]$/g, "");
  const isEverywhere = host === "" || host === "0.0.0.0" || host === "::";
  const reached = isEverywhere ? new URL(apiUrl).hostname.replace(/^\[|\]$/g, "") : host;
  return { host: reached, port: Number(listen.slice(colon + 1)) };
};

const CONNECT_MS = 1_000;
/** Toxiproxy takes a connection before it has one to the other side, and closes it when it gets none. */
const PASSED_ON_MS = 200;

/** `refuses`: nobody listens. `closes`: it hangs up at once. `unseen`: it cannot be reached from here, so nothing is known. */
export type Serving = "serves" | "refuses" | "closes" | "unseen";

export const isServing = ({ listen }: Pick<ProxyState, "listen">, apiUrl: string): Promise<Serving> => {
  const { host, port } = reachableListener(listen, apiUrl);
  // Loopback of another machine.
  if (isLoopbackHost(host) && !isLoopbackHost(new URL(apiUrl).hostname)) return Promise.resolve("unseen");
  return new Promise((resolve) => {
    const socket = connect({ host, port, family: isIP(host) || 4 });
    const finish = (seen: Serving): void => {
      clearTimeout(timer);
      socket.removeAllListeners();
      socket.on("error", () => {});
      socket.destroy();
      resolve(seen);
    };
    let timer = setTimeout(() => finish("unseen"), CONNECT_MS);
    let isConnected = false;
    socket.once("connect", () => {
      isConnected = true;
      clearTimeout(timer);
      timer = setTimeout(() => finish("serves"), PASSED_ON_MS);
    });
    socket.once("data", () => finish("serves"));
    for (const end of ["end", "close"] as const) socket.once(end, () => finish(isConnected ? "closes" : "unseen"));
    socket.once("error", ({ code }: NodeJS.ErrnoException) => {
      if (isConnected) finish("closes");
      else finish(code === "ECONNREFUSED" ? "refuses" : "unseen");
    });
  });
};
