/**
 * A TCP balancer for replicas on one machine: each connection goes to the next replica that accepts it. `PATCH
 * /deployment` with `upstreams` replaces the list of replicas; open connections stay.
 */
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import type { Service } from "./control-plane.ts";
import { type Address, hostAndPortOf, type ListenAt, route, TCP, urlOf } from "./links/http-service.ts";

const CONNECT_MS = 1_000;

const addressesOf = (urls: readonly string[]): Address[] => urls.map((url) => hostAndPortOf(new URL(url)));

const open = async (to: Address): Promise<Socket> => {
  const socket = connect({ ...to, noDelay: true, timeout: CONNECT_MS });
  socket.once("timeout", () => socket.destroy(new Error("not taken")));
  await once(socket, "connect");
  return socket.setTimeout(0);
};

/** Forwards one direction; a half-close and a reset are forwarded as such. */
const forward = (from: Socket, to: Socket): void => {
  from.pipe(to);
  from.on("error", () => to.resetAndDestroy()).on("close", () => to.destroySoon());
};

/** `urls`: base URLs of the replicas, without a path. */
export const startFront = async (urls: readonly string[], { host = "127.0.0.1", port }: ListenAt): Promise<Service> => {
  let upstreams = addressesOf(urls);
  let turn = 0;
  const sockets = new Set<Socket>();

  const upstreamFor = async (): Promise<Socket | null> => {
    const tried = [...upstreams];
    const first = turn++;
    for (let at = 0; at < tried.length; at += 1) {
      const upstream = await open(tried[(first + at) % tried.length] as Address).catch(() => null);
      if (upstream !== null) return upstream;
    }
    return null;
  };
  const server = createServer({ noDelay: true, allowHalfOpen: true, pauseOnConnect: true }, (client) => {
    sockets.add(client);
    client.on("error", () => {});
    client.once("close", () => sockets.delete(client));
    void upstreamFor().then((upstream) => {
      if (upstream === null || client.destroyed) {
        upstream?.destroy();
        client.resetAndDestroy();
        return;
      }
      forward(client, upstream);
      forward(upstream, client);
    });
  });
  return {
    url: urlOf("http", await TCP.listen(server, { host, port })),
    control: {
      routes: [route("GET", "/gauges", () => ({ sockets: sockets.size }))],
      deployment: () => ({ upstreams: upstreams.map(({ host, port }) => `http://${host}:${port}`) }),
      change: (change) => {
        if (change.upstreams !== undefined) upstreams = addressesOf(change.upstreams);
      },
    },
    close: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  };
};
