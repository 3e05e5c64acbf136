/** Listeners and connections in this process alone; some of them through links that can be broken. */
import type { Network } from "../platform/links/network.ts";
import { HOP_MS, type VirtualLink, VirtualSocket, createVirtualLink, socketError } from "./virtual-network.ts";
import type { VirtualTime } from "./virtual-time.ts";
import type { Server } from "node:http";
import type { Socket } from "node:net";

export type VirtualNetwork = Network & {
  /** Puts a link before a listener; returns it with the address that leads through it. */
  through(name: string, url: string): { link: VirtualLink; url: string };
};

const FIRST_PORT = 1024;

export const createVirtualNetwork = (time: VirtualTime): VirtualNetwork => {
  const listeners = new Map<number, { server: Server; link: VirtualLink }>();
  let port = FIRST_PORT;
  let caller = 0;
  return {
    listen: async (server) => {
      port += 1;
      listeners.set(port, { server, link: createVirtualLink(`port ${port}`, time) });
      return { address: "127.0.0.1", family: "IPv4", port };
    },
    through: (name, url) => {
      const behind = listeners.get(Number(new URL(url).port));
      if (behind === undefined) throw new Error(`nobody listens at ${url}`);
      port += 1;
      const link = createVirtualLink(name, time);
      listeners.set(port, { server: behind.server, link });
      return { link, url: `http://127.0.0.1:${port}` };
    },
    connect: ({ port: to }) => {
      const client = new VirtualSocket(to, false);
      time.after(2 * HOP_MS, () => {
        if (client.destroyed) return;
        const there = listeners.get(to);
        caller += 1;
        const server = new VirtualSocket(caller, true);
        if (there === undefined || !there.link.join(client, server)) {
          client.destroy(socketError("ECONNREFUSED"));
          return;
        }
        there.server.emit("connection", server);
        client.emit("connect");
      });
      return client as unknown as Socket;
    },
  };
};
