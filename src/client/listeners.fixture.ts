/** Servers of a test on free ports of 127.0.0.1, all closed together with their connections. */
import { type AddressInfo, createServer, type Server } from "node:net";

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
    /** A port that refuses connections. */
    closedPort: async (): Promise<number> => {
      const server = createServer();
      const port = await listen(server);
      await new Promise((resolve) => server.close(resolve));
      return port;
    },
    close: (): void => {
      for (const server of servers) {
        server.close();
        if ("closeAllConnections" in server) (server.closeAllConnections as () => void)();
      }
    },
  };
};
