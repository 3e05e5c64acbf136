/** For a suite of tests: one toxiproxy and one upstream for all of them. */
import { afterAll, beforeAll } from "vitest";
import { startForTests, startUpstream, type Upstream } from "./toxiproxy.fixture.ts";
import type { ToxiproxyServer } from "./toxiproxy-server.ts";

/** To be called in `describe`; what it returns is there once the tests run. */
export const toxiproxyRig = (
  ...command: string[]
): { readonly server: ToxiproxyServer; readonly upstream: Upstream } => {
  let server: ToxiproxyServer | undefined;
  let upstream: Upstream | undefined;
  beforeAll(async () => {
    upstream = await startUpstream();
    server = await startForTests(...command);
  });
  afterAll(async () => {
    await server?.stop();
    await upstream?.close();
  });
  return {
    get server() {
      return server as ToxiproxyServer;
    },
    get upstream() {
      return upstream as Upstream;
    },
  };
};
