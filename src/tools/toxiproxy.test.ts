import { once } from "node:events";
import { createServer } from "node:http";
import { describe, expect, test } from "vitest";
import { heal } from "../faults/healing.ts";
import { pause } from "../supervision/waiting.ts";
import { httpProbe, observeLink } from "./link-probe.ts";
import type { Toxic } from "./toxics.ts";
import { startForTests, toxiproxyOrSkip } from "./toxiproxy.fixture.ts";
import { openToxiproxy, type ProxyControl, type ToxiproxyError } from "./toxiproxy.ts";
import { toxiproxyRig } from "./toxiproxy-rig.fixture.ts";
import { STAND_IN_PROXY, startToxiproxy, type ToxiproxyServer } from "./toxiproxy-server.ts";

const path = toxiproxyOrSkip();
const failure = (promise: Promise<unknown>): Promise<ToxiproxyError> =>
  promise.then(
    () => expect.unreachable("it should have failed"),
    (error: unknown) => error as ToxiproxyError,
  );

describe.skipIf(path === null)("a real toxiproxy", () => {
  const rig = toxiproxyRig(path as string);
  let made = 0;
  const makeProxy = async () => {
    const name = `link-${++made}`;
    const state = await rig.server.toxiproxy.createProxy({ name, upstream: rig.upstream.address });
    return { name, state, proxy: rig.server.toxiproxy.proxy(name) };
  };
  const latency: Toxic = { name: "t", stream: "downstream", type: "latency", attributes: { latency: 50, jitter: 0 } };

  test("tells its version and has no proxy of its own start left", async () => {
    expect(await rig.server.toxiproxy.version()).toBe("2.12.0");
    const { toxiproxy, stop } = await startForTests(path as string);
    expect(await toxiproxy.list()).toEqual([]);
    await stop();
  });

  test("carries a request, and tells the port that was chosen", async () => {
    const { state } = await makeProxy();
    expect(state.listen).not.toMatch(/:0$/);
    const seen = await observeLink(httpProbe(state.listen, "/", 2_000));
    expect(seen).toMatchObject({ ended: "complete", connected: true });
  });

  test("what was put on is read back, and what was taken off is gone", async () => {
    const { proxy } = await makeProxy();
    await proxy.addToxic(latency);
    expect((await proxy.read()).toxics).toMatchObject([{ name: "t", attributes: { latency: 50 } }]);
    await proxy.removeToxic("t");
    await proxy.removeToxic("t");
    expect((await proxy.read()).toxics).toEqual([]);
    await proxy.setEnabled(false);
    expect((await proxy.read()).enabled).toBe(false);
  });

  test("an error has the status and the server's own message", async () => {
    const { proxy, name } = await makeProxy();
    await proxy.addToxic(latency);
    expect(await failure(proxy.addToxic(latency))).toMatchObject({
      status: 409,
      message: expect.stringContaining("already exists"),
    });
    expect(await failure(rig.server.toxiproxy.proxy("nobody").read())).toMatchObject({ status: 404 });
    const again = rig.server.toxiproxy.createProxy({ name, upstream: rig.upstream.address });
    expect((await failure(again)).message).toContain("answered 409");
  });

  test("removing a proxy twice is not an error", async () => {
    const { name } = await makeProxy();
    await rig.server.toxiproxy.removeProxy(name);
    await rig.server.toxiproxy.removeProxy(name);
    expect((await rig.server.toxiproxy.list()).some((proxy) => proxy.name === name)).toBe(false);
  });

  test("healing removes toxics of anybody and enables, and tells what it did", async () => {
    const { name, proxy } = await makeProxy();
    await proxy.addToxic({ ...latency, name: "left-behind" });
    await proxy.setEnabled(false);
    const healing = await heal(rig.server.toxiproxy, name);
    expect(healing).toEqual({
      healed: true,
      gone: false,
      disabledByOthers: false,
      serving: "serves",
      did: ["DELETE toxic left-behind", "enabled=true"],
      trouble: [],
    });
    expect(await proxy.read()).toMatchObject({ enabled: true, toxics: [] });
  });

  test("a whole link needs nothing, and one that is not there is told as gone", async () => {
    const { name } = await makeProxy();
    expect(await heal(rig.server.toxiproxy, name)).toMatchObject({ healed: true, did: [] });
    expect(await heal(rig.server.toxiproxy, "nobody")).toMatchObject({ healed: false, gone: true, did: [] });
  });

  describe("when a step is carried out late", () => {
    /** Stands before the server; a change is held back for so long, and then passed on whoever still waits for it. */
    const slowly = async (holdMs: (method: string, body: string, times: number) => number) => {
      const times = new Map<string, number>();
      const gateway = createServer(async (request, response) => {
        const { method = "", url = "" } = request;
        let body = "";
        for await (const chunk of request.setEncoding("utf8")) body += chunk;
        const nth = (times.get(method + body) ?? 0) + 1;
        times.set(method + body, nth);
        await new Promise((resolve) => setTimeout(resolve, holdMs(method, body, nth)));
        const answer = await fetch(`${rig.server.apiUrl}${url}`, { method, ...(body === "" ? {} : { body }) });
        response.writeHead(answer.status).end(await answer.text());
      });
      await new Promise<void>((resolve) => gateway.listen(0, "127.0.0.1", resolve));
      const port = (gateway.address() as { port: number }).port;
      const toxiproxy = openToxiproxy(`http://127.0.0.1:${port}`);
      const close = async (): Promise<void> => {
        await toxiproxy.close();
        gateway.closeAllConnections();
        await new Promise((resolve) => gateway.close(resolve));
      };
      return { toxiproxy, close };
    };

    test("it is not called whole while that may still break it, and is whole in the end", async () => {
      const { name, proxy } = await makeProxy();
      await proxy.addToxic({ ...latency, name: "floodgate-slow" });
      const { toxiproxy, close } = await slowly((method, body, nth) =>
        method === "DELETE" && nth === 1 ? 2_800 : body.includes("false") && nth === 1 ? 3_600 : 0,
      );
      // Long enough for the quick answers on a busy machine.
      const healing = await heal(toxiproxy, name, { callMs: 1_000, mayReset: false });
      expect(healing).toMatchObject({ healed: true, serving: "serves" });
      expect(toxiproxy.underWay()).toBe(0);
      expect(await proxy.read()).toMatchObject({ enabled: true, toxics: [] });
      await close();
    });

    test("where it never comes, healing says so", async () => {
      const { name, proxy } = await makeProxy();
      await proxy.addToxic({ ...latency, name: "floodgate-slow" });
      const { toxiproxy, close } = await slowly((method, _, nth) => (method === "DELETE" && nth === 1 ? 60_000 : 0));
      const signal = AbortSignal.timeout(8_000);
      const healing = await heal(toxiproxy, name, { callMs: 1_000, mayReset: false, signal });
      expect(healing.healed).toBe(false);
      expect(healing.trouble.at(-1)).toContain("may still be carried out");
      await close();
    });
  });

  describe("when the server hangs", () => {
    const hang = async (own: ToxiproxyServer) => {
      const { listen } = await own.toxiproxy.createProxy({ name: "stuck", upstream: rig.upstream.address });
      // This delay cannot be interrupted: once it holds a request, DELETE waits those 60 s with the lock in hand.
      const stuck = {
        name: "stuck",
        stream: "downstream",
        type: "reset_peer",
        attributes: { timeout: 60_000 },
      } as const;
      await own.toxiproxy.proxy("stuck").addToxic(stuck);
      expect((await observeLink(httpProbe(listen, "/", 300))).ended).toBe("silent");
      return listen;
    };

    test("each rung ends at its deadline, and what is not whole is not called healed", async () => {
      const own = await startForTests(path as string);
      await hang(own);
      const healing = await heal(own.toxiproxy, "stuck", { callMs: 1_000 });
      expect(healing.healed).toBe(false);
      expect(healing.did).toEqual(["DELETE toxic stuck", "POST /reset", "enabled=false", "enabled=true"]);
      expect(healing.trouble.join()).toContain("no answer within 1000 ms");
      await own.stop();
    });

    test("a server of our own is made anew, with the same links on the same ports", async () => {
      const own = await startForTests(path as string);
      const listen = await hang(own);
      const before = own.pid();
      const healing = await heal(own.toxiproxy, "stuck", { callMs: 1_000, restart: own.restart });
      expect(healing.healed).toBe(true);
      expect(healing.did.at(-1)).toBe("restart of the server");
      expect(own.pid()).not.toBe(before);
      expect((await observeLink(httpProbe(listen, "/", 2_000))).ended).toBe("complete");
      await own.stop();
    });

    test("a reset that would touch the links of others is left out", async () => {
      const own = await startForTests(path as string);
      await hang(own);
      const healing = await heal(own.toxiproxy, "stuck", { callMs: 1_000, mayReset: false });
      expect(healing.did).not.toContain("POST /reset");
      await own.stop();
    });
  });
});

describe.each([
  ["toxiproxy", path === null ? null : [path]],
  ["its stand-in", STAND_IN_PROXY],
])("an address that another program takes while the proxy is disabled: %s", (_, command) => {
  const whileTaken = async (work: (proxy: ProxyControl, listen: string, leave: () => void) => Promise<void>) => {
    const own = await startForTests(...(command ?? []));
    const { listen } = await own.toxiproxy.createProxy({ name: "link", upstream: "127.0.0.1:1" });
    const proxy = own.toxiproxy.proxy("link");
    await proxy.setEnabled(false);
    const other = createServer().listen(Number(listen.split(":")[1]), "127.0.0.1");
    await once(other, "listening");
    try {
      await work(proxy, listen, () => void other.close());
    } finally {
      other.close();
      await own.stop();
    }
  };

  test.skipIf(command === null)("the proxy is enabled once that program is gone", () =>
    whileTaken(async (proxy, _listen, leave) => {
      const enabled = proxy.setEnabled(true);
      await pause(500);
      leave();
      await enabled;
      expect((await proxy.read()).enabled).toBe(true);
    }),
  );

  test.skipIf(command === null)("where that program stays, the error names the address", () =>
    whileTaken(async (proxy, listen) => {
      const { code, message } = await failure(proxy.setEnabled(true));
      expect(code).toBe("address already in use");
      expect(message).toContain(listen);
    }),
  );
});

test("a server that takes no toxic off, and answers as if it had, is not called healed; what is left is named", async () => {
  const toxic = { name: "floodgate-reset", type: "reset_peer", stream: "downstream", toxicity: 1, attributes: {} };
  const state = { name: "p", listen: "127.0.0.1:1", upstream: "127.0.0.1:2", enabled: true, toxics: [toxic] };
  const liar = createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request.setEncoding("utf8")) body += chunk;
    if (body !== "") Object.assign(state, JSON.parse(body));
    response.writeHead(request.method === "DELETE" ? 204 : 200).end(JSON.stringify(state));
  });
  await new Promise<void>((resolve) => liar.listen(0, "127.0.0.1", resolve));
  const toxiproxy = openToxiproxy(`http://127.0.0.1:${(liar.address() as { port: number }).port}`);
  try {
    const { healed, trouble } = await heal(toxiproxy, "p", { mayReset: false, callMs: 500 });
    expect(healed).toBe(false);
    expect(trouble).toEqual(["every step was confirmed, but this is still there: floodgate-reset"]);
  } finally {
    await toxiproxy.close();
    liar.closeAllConnections();
    await new Promise((resolve) => liar.close(resolve));
  }
});

test("a server that answers half a proxy is not called healed, and nothing is thrown", async () => {
  const half = createServer((_request, response) => response.end(JSON.stringify({ name: "p", enabled: true })));
  await new Promise<void>((resolve) => half.listen(0, "127.0.0.1", resolve));
  const toxiproxy = openToxiproxy(`http://127.0.0.1:${(half.address() as { port: number }).port}`);
  try {
    const { healed, trouble } = await heal(toxiproxy, "p", { mayReset: false, callMs: 500 });
    expect(healed).toBe(false);
    expect(trouble[0]).toContain("something that is not a proxy");
  } finally {
    await toxiproxy.close();
    half.closeAllConnections();
    await new Promise((resolve) => half.close(resolve));
  }
});

describe("a control call", () => {
  test("ends at its deadline when the server never answers", async () => {
    const silent = createServer(() => {});
    await new Promise<void>((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const toxiproxy = openToxiproxy(`http://127.0.0.1:${(silent.address() as { port: number }).port}`, { callMs: 100 });
    expect((await failure(toxiproxy.version())).message).toContain("no answer within 100 ms");
    await toxiproxy.close();
    silent.closeAllConnections();
    await new Promise((resolve) => silent.close(resolve));
  });

  test("tells that nobody listens", async () => {
    const toxiproxy = openToxiproxy("http://127.0.0.1:1");
    expect(await failure(toxiproxy.list())).toMatchObject({ status: null, code: "ECONNREFUSED" });
    await toxiproxy.close();
  });

  test("a server that is not toxiproxy is told as such", async () => {
    const other = createServer((_, response) => void response.end("{}"));
    await new Promise<void>((resolve) => other.listen(0, "127.0.0.1", resolve));
    const toxiproxy = openToxiproxy(`http://127.0.0.1:${(other.address() as { port: number }).port}`);
    expect((await failure(toxiproxy.version())).message).toContain("is this URL toxiproxy's API?");
    await toxiproxy.close();
    other.closeAllConnections();
    await new Promise((resolve) => other.close(resolve));
  });

  test("a server that ends at once is tried again and then told in a sentence", async () => {
    let starts = 0;
    const starting = startToxiproxy({
      command: ["nothing"],
      start: async () => {
        starts++;
        return { pid: 0, exited: Promise.resolve(), stop: async () => {} };
      },
    });
    expect((await failure(starting)).message).toContain("did not start in 3 tries: it ended at once");
    expect(starts).toBe(3);
  });
});
