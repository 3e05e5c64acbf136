/**
 * Where the deployment's connections come from: TCP, unless another network is handed in. One that lives in this process
 * can break in any way, at any moment of a clock of its own, and costs no time.
 */
import type { Server } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";

export type Network = {
  /** A connection being made: it emits `connect`, or `error`. */
  connect(at: { host: string; port: number }): Socket;
  /** Resolves with where it listens; rejects when the address cannot be had. */
  listen(
    server: Server,
    at: { host: string; port: number; backlog: number },
  ): Promise<Pick<AddressInfo, "address" | "family" | "port">>;
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

export const TCP: Network = {
  connect: ({ host, port }) => connect({ host, port, noDelay: true }),
  listen: async (server, at) => {
    await new Promise<void>((resolve, reject) => {
      server.once("error", reject).listen(at, () => {
        server.off("error", reject);
        resolve();
      });
    });
    return server.address() as AddressInfo;
  },
};
