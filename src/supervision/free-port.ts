/** Finds a port of 127.0.0.1 that was free a moment ago, for servers that cannot choose one themselves. */
import { type AddressInfo, createServer } from "node:net";

export const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().once("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
