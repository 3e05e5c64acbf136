/** Where the deployment's connections come from: TCP, or a virtual network in this process. */
import type { Server as HttpServer } from "node:http";
import { type AddressInfo, connect, type Server, type Socket } from "node:net";
import type { buildConnector } from "undici";

type ListensAt = Pick<AddressInfo, "address" | "family" | "port">;

export const urlOf = (scheme: "http" | "https", { address, family, port }: ListensAt): string =>
  `${scheme}://${family === "IPv6" ? `[${address}]` : address}:${port}`;

export type Address = { host: string; port: number };

export type Network = {
  /** Starts a connection, which emits `connect` or `error`. */
  connect(at: Address): Socket;
  listen(server: HttpServer, at: Address): Promise<ListensAt>;
};

/** Counts the connections that were made through it and are not closed. */
export const countedNetwork = (network: Network): Network & { open(): number } => {
  let open = 0;
  return {
    ...network,
    open: () => open,
    connect: (at) => {
      open += 1;
      return network.connect(at).once("close", () => {
        open -= 1;
      });
    },
  };
};

/** Where the URL of a part leads; without a port it is HTTP's. */
export const hostAndPortOf = ({ hostname, port }: Record<"hostname" | "port", string>): Address => ({
  host: hostname.replace(/^\[|\]$/g, ""),
  port: Number(port || 80),
});

/** Connections of undici that come from this network. */
export const connectorOf =
  ({ connect }: Network, timeoutMs?: number): buildConnector.connector =>
  (to, callback) => {
    const socket = connect(hostAndPortOf(to));
    const settle = (error: Error | null): void => {
      clearTimeout(timer);
      socket.off("error", settle).off("connect", connected);
      if (error === null) callback(null, socket);
      else callback(error, null);
    };
    const connected = (): void => settle(null);
    const timer =
      timeoutMs === undefined
        ? undefined
        : setTimeout(() => socket.destroy(new Error(`no connection within ${timeoutMs} ms`)), timeoutMs);
    socket.once("error", settle).once("connect", connected);
  };

/** Connections that wait to be accepted, so that a burst of new clients is not refused by the kernel. */
const BACKLOG = 4096;

export const TCP = {
  connect: ({ host, port }) => connect({ host, port, noDelay: true }),
  listen: async (server: Server, at) => {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen({ ...at, backlog: BACKLOG }, () => {
        server.off("error", reject);
        resolve();
      });
    });
    return server.address() as AddressInfo;
  },
} satisfies Network;
