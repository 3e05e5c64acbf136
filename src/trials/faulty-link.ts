/**
 * A TCP link in this process that can be broken and healed, to try the platform and its judges. Experiments on whole deployments
 * use toxiproxy.
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";

/**
 * Named as in the experiments. `request-lost`: accepted, never answered. `reply-lost`: the request arrives, the reply does not.
 * `nonsense`: a well-formed reply without meaning.
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

export type FaultyLink = Awaited<ReturnType<typeof startFaultyLink>>;

const NONSENSE = 'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 7\r\n\r\n{"x":1}';

/** `target`: a URL whose host and port are used. */
export const startFaultyLink = async (target: string) => {
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
  /** Resets open connections, so that nothing is answered late. */
  const cut = (): void => {
    for (const socket of open) socket.resetAndDestroy();
  };
  /** Stops listening and resets open connections, so that new ones are refused. */
  const stop = (): Promise<void> =>
    new Promise((resolve) => {
      server.close(() => resolve());
      cut();
    });
  await listen();
  return {
    url: `http://127.0.0.1:${port}`,
    /** Applies to open and new connections. After `none`, open connections that lost data stay open. */
    setFault: (next: LinkFault): void => {
      fault = next;
    },
    cut,
    refuse: stop,
    listenAgain: listen,
    close: stop,
  };
};
