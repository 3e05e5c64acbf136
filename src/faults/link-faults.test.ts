import { request } from "undici";
import { describe, expect, test } from "vitest";
import { waitUntil } from "../supervision/waiting.ts";
import { httpProbe, type LinkSeen, observeLink } from "../tools/link-probe.ts";
import type { Toxic } from "../tools/toxics.ts";
import { toxiproxyOrSkip } from "../tools/toxiproxy.fixture.ts";
import type { ProxyControl } from "../tools/toxiproxy.ts";
import { toxiproxyRig } from "../tools/toxiproxy-rig.fixture.ts";
import { STAND_IN_PROXY } from "../tools/toxiproxy-server.ts";
import { LINK_FAULTS, makeFault } from "./link-faults.ts";

const path = toxiproxyOrSkip();
const BUDGET_MS = 150;
/** Whether the operation reaches the dependency under the fault. */
const REACHES: Record<string, boolean> = {
  "accepted-then-closed": false,
  "request-lost": false,
  "reply-lost": true,
  reset: true,
  "slow-within-budget": true,
  "slow-beyond-budget": true,
  "truncated-reply": true,
  trickle: true,
};

describe.each([
  ["toxiproxy", path === null ? null : [path]],
  ["the proxy that stands in for it", STAND_IN_PROXY],
])("each fault of the catalogue, on a real link, by %s", (_name, command) => {
  if (command === null) {
    test.skip("no toxiproxy has been built", () => {});
    return;
  }
  const rig = toxiproxyRig(...command);

  test.each(LINK_FAULTS)("%s shows on the link, and is gone when taken away", async (name) => {
    const fault = makeFault(name, { budgetMs: BUDGET_MS });
    const { listen } = await rig.server.toxiproxy.createProxy({
      name,
      upstream: rig.upstream.address,
    });
    const proxy = rig.server.toxiproxy.proxy(name);
    const probe = httpProbe(listen, "/", BUDGET_MS * 3);
    const seen: LinkSeen[] = [];
    const comesToShow = async (does: (one: LinkSeen) => boolean): Promise<boolean> => {
      const look = async (): Promise<boolean> => {
        const one = await observeLink(probe);
        seen.push(one);
        return does(one);
      };
      return (await waitUntil(look, { forMs: 30_000, pollMs: 20 })).met;
    };
    // On a busy machine a whole link can look slow for a moment.
    const isWhole = (one: LinkSeen): boolean => one.ended === "complete" && !fault.shows(one);
    expect(await comesToShow(isWhole), JSON.stringify(seen)).toBe(true);

    await fault.put(proxy);
    const servedBefore = rig.upstream.served();
    expect(await comesToShow(fault.shows), JSON.stringify(seen)).toBe(true);
    if (name in REACHES) expect(rig.upstream.served() > servedBefore).toBe(REACHES[name]);

    await fault.take(proxy);
    expect(await proxy.read()).toMatchObject({ enabled: true, toxics: [] });
    expect(await comesToShow(isWhole), JSON.stringify(seen)).toBe(true);
  });

  test("open connections are hit too, not only new ones", async () => {
    for (const name of ["refused", "accepted-then-closed", "truncated-reply"]) {
      const fault = makeFault(name, { budgetMs: BUDGET_MS });
      const link = `${name}-kept-alive`;
      const { listen } = await rig.server.toxiproxy.createProxy({
        name: link,
        upstream: rig.upstream.address,
      });
      await (await request(`http://${listen}/`)).body.text();
      await fault.put(rig.server.toxiproxy.proxy(link));
      await expect(request(`http://${listen}/`).then((answer) => answer.body.text())).rejects.toThrow();
      await fault.take(rig.server.toxiproxy.proxy(link));
    }
  });
});

describe("the catalogue", () => {
  test("holds the ten faults of a link, each name once", () => {
    expect(new Set(LINK_FAULTS).size).toBe(10);
  });

  test.each(LINK_FAULTS)("%s sends toxiproxy whole numbers from 0, whatever the budget", async (name) => {
    for (const budgetMs of [0.3, 12.34, 250, 60_000.5]) {
      const sent: Toxic[] = [];
      const done = async (): Promise<void> => {};
      const proxy = { addToxic: async (toxic: Toxic) => void sent.push(toxic), setEnabled: done, removeToxic: done };
      const fault = makeFault(name, { budgetMs });
      await fault.put(proxy as unknown as ProxyControl);
      if (name === "flapping") await fault.take(proxy as unknown as ProxyControl);
      for (const { type, attributes } of sent) {
        for (const value of Object.values(attributes)) expect(Number.isSafeInteger(value) && value >= 0).toBe(true);
        if (type === "slicer") expect(attributes.average_size).toBeGreaterThan(attributes.size_variation);
      }
      expect(sent).toHaveLength(1);
    }
  });

  test("an unknown name is answered with those that there are", () => {
    expect(() => makeFault("down", { budgetMs: 250 })).toThrow("slow-within-budget");
  });
});
