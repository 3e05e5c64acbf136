/** Finds a port of 127.0.0.1 that was free a moment ago, for servers that cannot choose one themselves. */
import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";

export const freePort = async (): Promise<number> => {
  await using server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  return (server.address() as AddressInfo).port;
};
