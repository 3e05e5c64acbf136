/** A TCP link that can be broken and healed in one process: enough to test the API; experiments use toxiproxy. */
import { type AddressInfo, connect, createServer, type Socket } from "node:net";

/** `silent`: taken and never answered. `reply-lost`: the question arrives, the answer does not. */
export type LinkFault = "refused" | "silent" | "reset" | "nonsense" | "reply-lost";

export type FaultyLink = { url: string; inject(fault: LinkFault): void; heal(): void; close(): void };

export const faultyLink = async (to: string): Promise<FaultyLink> => {
  const { hostname, port } = new URL(to);
  let fault: LinkFault | null = null;
  const sockets = new Set<Socket>();
  const keep = (socket: Socket): Socket => {
    sockets.add(socket);
    socket.on("error", () => {});
    socket.once("close", () => sockets.delete(socket));
    return socket;
  };
  const server = createServer((near) => {
    keep(near);
    if (fault === "refused") return void near.destroy();
    const far = keep(connect({ host: hostname, port: Number(port) }));
    near.on("close", () => far.destroy());
    far.on("close", () => near.destroy());
    near.on("data", (bytes) => {
      if (fault === "reset" || fault === "refused") near.resetAndDestroy();
      else if (fault === "nonsense")
        near.write('HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"x":1}');
      else if (fault !== "silent") far.write(bytes);
    });
    far.on("data", (bytes) => {
      if (fault === null) near.write(bytes);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    inject: (next) => {
      fault = next;
    },
    heal: () => {
      fault = null;
      // What was left unanswered is not answered late.
      for (const socket of sockets) socket.destroy();
    },
    close: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
};
