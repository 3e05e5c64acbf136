/** Servers of a test on free ports of 127.0.0.1, all closed together with their connections. */
import type { AddressInfo, Server } from "node:net";
import { freePort } from "../tools/link-probe.ts";

export const openListeners = () => {
  const servers: Server[] = [];
  const listen = async (server: Server): Promise<number> => {
    servers.push(server);
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return (server.address() as AddressInfo).port;
  };
  return {
    /** Resolves to the port. */
    listen,
    /** A port that refuses connections, and that the system gives to nobody meanwhile. */
    closedPort: (): Promise<number> => freePort(),
    close: (): void => {
      for (const server of servers) {
        server.close();
        if ("closeAllConnections" in server) (server.closeAllConnections as () => void)();
      }
    },
  };
};
