/** A TCP link for tests that can be broken in every way that a call may meet, and healed. */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

export type LinkFault = "none" | "request-lost" | "reply-lost" | "reset" | "truncated-reply";

export type FaultyLink = {
  url: string;
  /** Applies to connections that are open and to new ones. */
  setFault(fault: LinkFault): void;
  /** Stops listening and resets what is open: connections are refused. */
  refuse(): Promise<void>;
  listenAgain(): Promise<void>;
  close(): Promise<void>;
};

export const startFaultyLink = async (target: string): Promise<FaultyLink> => {
  const { hostname, port: targetPort } = new URL(target);
  let fault: LinkFault = "none";
  let port = 0;
  let server: Server;
  const open = new Set<Socket>();
  const track = (socket: Socket): Socket => {
    open.add(socket);
    return socket.on("error", () => {}).on("close", () => open.delete(socket));
  };
  const accept = (client: Socket): void => {
    const service = connect(Number(targetPort), hostname);
    for (const socket of [client, service]) track(socket);
    client.on("close", () => service.destroy());
    service.on("close", () => client.destroy());
    client.on("data", (chunk) => {
      if (fault === "reset") client.resetAndDestroy();
      else if (fault !== "request-lost") service.write(chunk);
    });
    service.on("data", (chunk: Buffer) => {
      if (fault === "none") client.write(chunk);
      if (fault === "truncated-reply") client.end(chunk.subarray(0, chunk.length - 5));
    });
  };
  const listen = (): Promise<void> =>
    new Promise((resolve) => {
      server = createServer(accept).listen(port, "127.0.0.1", () => {
        port = (server.address() as AddressInfo).port;
        resolve();
      });
    });
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      for (const socket of open) socket.resetAndDestroy();
    });
  await listen();
  return {
    url: `http://127.0.0.1:${port}`,
    setFault: (next) => {
      fault = next;
    },
    refuse: stop,
    listenAgain: listen,
    close: stop,
  };
};
