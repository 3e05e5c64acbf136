/**
 * A TCP link inside one process that can be broken in every way that a call may meet, and healed: enough to try the platform
 * and its judges on. Experiments on a whole deployment use toxiproxy.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/**
 * The words of the experiments. `request-lost`: taken and never answered. `reply-lost`: the question arrives, the answer does
 * not. `nonsense`: a well-formed answer that means nothing.
 */
export const LINK_FAULTS = [
  "accepted-then-closed",
  "request-lost",
  "reply-lost",
  "reset",
  "truncated-reply",
  "nonsense",
] as const;
export type LinkFault = (typeof LINK_FAULTS)[number] | "none";

export type FaultyLink = {
  url: string;
  /** For connections that are open and for new ones. `none` leaves those open that have lost something. */
  setFault(fault: LinkFault): void;
  /** Resets what is open: nothing that was left unanswered is answered late. */
  cut(): void;
  /** Stops listening and resets what is open: connections are refused. */
  refuse(): Promise<void>;
  listenAgain(): Promise<void>;
  close(): Promise<void>;
};

const NONSENSE = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"x":1}';

/** `target`: any URL with host and port. */
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
    track(client);
    if (fault === "accepted-then-closed") {
      client.destroy();
      return;
    }
    const service = track(connect(Number(targetPort), hostname));
    client.on("close", () => service.destroy());
    service.on("close", () => client.destroy());
    client.on("data", (chunk) => {
      if (fault === "reset" || fault === "accepted-then-closed") client.resetAndDestroy();
      else if (fault === "nonsense") client.write(NONSENSE);
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
  const cut = (): void => {
    for (const socket of open) socket.resetAndDestroy();
  };
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      cut();
    });
  await listen();
  return {
    url: `http://127.0.0.1:${port}`,
    setFault: (next) => {
      fault = next;
    },
    cut,
    refuse: stop,
    listenAgain: listen,
    close: stop,
  };
};
