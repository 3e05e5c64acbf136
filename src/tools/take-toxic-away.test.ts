/**
 * The race that wedges toxiproxy: a toxic that holds replies back is removed while clients give up. Many clients leave all the
 * time; afterwards the server must still answer.
 */
import { connect } from "node:net";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { makeFault } from "../faults/link-faults.ts";
import { startForTests, startUpstream, toxiproxyOrSkip, type Upstream } from "./toxiproxy.fixture.ts";
import type { ToxiproxyServer } from "./toxiproxy-server.ts";

const path = toxiproxyOrSkip();
/** A plain DELETE wedges the server within three of them. */
const ROUNDS = 10;

/** Clients that ask and give up before all of the reply is there, hundreds a second. */
const giveUpAllTheTime = (listen: string): (() => void) => {
  const [host, port] = listen.split(":") as [string, string];
  let begun = 0;
  const one = (): void => {
    const leaveMs = 20 + ((begun++ * 37) % 200);
    const socket = connect(Number(port), host);
    socket.on("error", () => {});
    socket.on("connect", () => {
      socket.write("GET / HTTP/1.1\r\nhost: x\r\n\r\n");
      setTimeout(() => socket.resetAndDestroy(), leaveMs);
    });
  };
  const timer = setInterval(() => {
    for (const start of [one, one, one]) start();
  }, 4);
  return () => clearInterval(timer);
};

describe.skipIf(path === null)("removing a toxic that holds replies back", () => {
  let server: ToxiproxyServer;
  let upstream: Upstream;
  beforeEach(async () => {
    upstream = await startUpstream(1_500);
    server = await startForTests(path as string);
  });
  afterEach(async () => {
    await server?.stop();
    await upstream?.close();
  });

  test.each(["trickle", "slow-beyond-budget"])("%s, while clients give up: the server goes on", async (name) => {
    const { listen } = await server.toxiproxy.createProxy({ name, upstream: upstream.address });
    const proxy = server.toxiproxy.proxy(name);
    const stop = giveUpAllTheTime(listen);
    try {
      for (let round = 0; round < ROUNDS; round++) {
        const fault = makeFault(name, { budgetMs: 100 });
        await fault.put(proxy, { callMs: 3_000 });
        await new Promise((resolve) => setTimeout(resolve, 150));
        await fault.take(proxy, { callMs: 3_000 });
        expect(await proxy.read({ callMs: 3_000 })).toMatchObject({ enabled: true, toxics: [] });
      }
    } finally {
      stop();
    }
  });
});
