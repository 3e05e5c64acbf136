/** Healing on a toxiproxy that others use too: what we did is taken back, what they did stays. */
import { describe, expect, test } from "vitest";
import { toxiproxyOrSkip } from "../tools/toxiproxy.fixture.ts";
import { toxiproxyRig } from "../tools/toxiproxy-rig.fixture.ts";
import { heal, UNDO_PORTS } from "./healing.ts";
import { makeFault } from "./link-faults.ts";

const path = toxiproxyOrSkip();

describe.skipIf(path === null)("a toxiproxy that others use", () => {
  const rig = toxiproxyRig(path as string);

  /** A proxy with our fault and a toxic of somebody else, disabled by them or by our fault. */
  const broken = async (name: string, fault: string) => {
    await rig.server.toxiproxy.createProxy({ name, upstream: rig.upstream.address });
    const proxy = rig.server.toxiproxy.proxy(name);
    await makeFault(fault, { budgetMs: 100 }).put(proxy);
    await proxy.addToxic({
      name: "theirs",
      type: "latency",
      stream: "downstream",
      attributes: { latency: 1, jitter: 0 },
    });
    return proxy;
  };

  test("their toxic on the same proxy stays, and ours is gone", async () => {
    const proxy = await broken("one", "reply-lost");
    const healing = await heal(rig.server.toxiproxy, "one", { mayReset: false });
    expect(healing).toMatchObject({ healed: true, did: ["DELETE toxic floodgate-reply-lost"] });
    expect((await proxy.read()).toxics).toMatchObject([{ name: "theirs" }]);
  });

  test("a proxy that they disabled meanwhile stays disabled, and one that the fault disabled does not", async () => {
    const target = { base_url: "http://127.0.0.1:1/v1" };
    const undo = { how: "heal-proxy", api_url: rig.server.apiUrl, target } as const;
    const limits = { signal: AbortSignal.timeout(60_000), callMs: 5_000 };
    const theirs = await broken("two", "reply-lost");
    await theirs.setEnabled(false);
    expect(await UNDO_PORTS.proxy({ ...undo, proxy: "two", disables: false }, limits)).toContain(
      "somebody else disabled",
    );
    expect(await theirs.read()).toMatchObject({ enabled: false, toxics: [{ name: "theirs" }] });
    const ours = await broken("three", "refused");
    await UNDO_PORTS.proxy({ ...undo, proxy: "three", disables: true }, limits);
    expect(await ours.read()).toMatchObject({ enabled: true, toxics: [{ name: "theirs" }] });
  });

  test("one that is disabled shows by its toxic that it was us, when nothing else is known any more", async () => {
    const proxy = await broken("five", "refused");
    const healing = await heal(rig.server.toxiproxy, "five", { mayReset: false, mayEnable: false });
    expect(healing).toMatchObject({ healed: true, serving: "serves" });
    expect(await proxy.read()).toMatchObject({ enabled: true, toxics: [{ name: "theirs" }] });
  });

  test("one that passes nothing on is healed, and does not count as whole", async () => {
    const { toxiproxy } = rig.server;
    await toxiproxy.createProxy({ name: "six", upstream: "127.0.0.1:1" });
    expect(await heal(toxiproxy, "six", { mayReset: false })).toMatchObject({ healed: true, serving: "closes" });
    const target = { base_url: "http://127.0.0.1:1/v1" };
    const undo = { how: "heal-proxy", api_url: rig.server.apiUrl, proxy: "six", disables: true, target } as const;
    const limits = { signal: AbortSignal.timeout(60_000), callMs: 5_000 };
    await expect(UNDO_PORTS.proxy(undo, limits)).rejects.toThrow("nobody answers at its upstream");
  });

  test("on a server of our own everything goes", async () => {
    const proxy = await broken("four", "reply-lost");
    await proxy.setEnabled(false);
    await heal(rig.server.toxiproxy, "four");
    expect(await proxy.read()).toMatchObject({ enabled: true, toxics: [] });
  });
});
