/** The limiter or the key service is away, slow or mad: closed, fast, settled afterwards (items 213, 216; B4; P12). */
import { afterEach, describe, expect, test } from "vitest";
import { type FaultyLink, LINK_FAULTS, startFaultyLink } from "../links/faulty-link.fixture.ts";
import { until } from "../start-platform.fixture.ts";
import type { Links } from "../start-role.ts";
import { type Deployment, ORIGIN, outcomeOf, startDeployment } from "./api.fixture.ts";

const open: { close(): unknown }[] = [];
afterEach(async () => {
  for (const one of open.splice(0)) await one.close();
});

type Rig = { on: Deployment; limiter: FaultyLink; keys: FaultyLink; secret: string; org: string };

const rig = async (): Promise<Rig> => {
  let limiter: FaultyLink | undefined;
  let keys: FaultyLink | undefined;
  const on = await startDeployment({
    limiterBudgetMs: 120,
    keyServiceBudgetMs: 250,
    links: async (services): Promise<Links> => {
      [limiter, keys] = [await startFaultyLink(services.limiter), await startFaultyLink(services.keys)];
      return { limiter: limiter.url, keys: keys.url };
    },
  });
  open.push(on, limiter as FaultyLink, keys as FaultyLink);
  const org = await on.org();
  const { secret } = await on.serverKey(org);
  return { on, limiter: limiter as FaultyLink, keys: keys as FaultyLink, secret, org };
};

describe("the limiter", () => {
  test.each(LINK_FAULTS)(
    "%s: refused with limiter_unavailable, and normal again once it is healed (item 213)",
    async (fault) => {
      const { on, limiter, secret, org } = await rig();
      const load = (i: number) =>
        on.call({
          method: "POST",
          path: "/maps/loads",
          credential: secret,
          headers: { "x-request-id": `fault.x.${i}` },
        });
      expect((await load(0)).status).toBe(200);
      limiter.setFault(fault);
      for (let i = 1; i <= 3; i += 1) {
        const heard = await load(i);
        expect([heard.status, heard.json]).toEqual([429, { detail: "limiter_unavailable" }]);
        expect(heard.headers["retry-after"]).toBe("1");
      }
      // A catalog is not metered, and is closed all the same.
      expect(outcomeOf(await on.call({ path: "/design/styles", credential: secret }))).toBe("429 limiter_unavailable");
      expect((await on.gauges()).unsettled).toBe(3);
      limiter.setFault("none");
      await until("an admitted call", async () => (await load(9)).status === 200);
      await on.quiet();
      const admitted = (await on.ask("GET", "/counts?run=fault")).json["200"][org];
      const lines = await on.ledger("fault");
      const net = lines.reduce((sum, { kind }) => sum + (kind === "charge" ? 1 : -1), 0);
      expect(net).toBe(admitted);
      expect((await on.ask("GET", `/orgs/${org}`)).json.map_loads_used).toBe(admitted);
    },
  );

  test("a stop waits until every refund is confirmed", async () => {
    const { on, limiter, secret } = await rig();
    limiter.setFault("accepted-then-closed");
    await on.call({ method: "POST", path: "/maps/loads", credential: secret });
    expect((await on.gauges()).unsettled).toBe(1);
    const stopped = on.running.api?.close();
    setTimeout(() => limiter.setFault("none"), 200);
    await stopped;
    expect(on.running.api?.gauges().unsettled).toBe(0);
  });
});

describe("the key service", () => {
  test.each(LINK_FAULTS)(
    "%s: 503 without a detail, never 401, and normal again once it is healed (item 216)",
    async (fault) => {
      const { on, keys, org } = await rig();
      const [first, second] = [await on.key(org), await on.key(org)];
      const mint = (secret: string) =>
        on.call({
          method: "POST",
          path: "/sdk/sessions",
          body: { product: "chat" },
          credential: secret,
          origin: ORIGIN,
        });
      keys.setFault(fault);
      for (const secret of [first.secret, second.secret, "svc_pk_live_unknown0000000000"]) {
        const heard = await mint(secret);
        expect([heard.status, heard.text]).toEqual([503, "{}"]);
        expect(heard.headers["retry-after"]).toBe("1");
      }
      // What needs no look-up needs no key service.
      expect(outcomeOf(await mint("garbage"))).toBe("401");
      const admin = await on.adminToken(org);
      const managed = await on.call({
        method: "POST",
        path: "/shared-api/api-keys",
        body: { kind: "server" },
        credential: admin,
      });
      expect([managed.status, managed.text]).toEqual([503, "{}"]);
      keys.setFault("none");
      await until("a mint", async () => (await mint(first.secret)).status === 200);
      expect((await mint(second.secret)).status).toBe(200);
      expect((await mint("svc_pk_live_unknown0000000000")).status).toBe(401);
      await on.quiet();
    },
  );

  test("a record in the cache serves through an outage, but no longer than the revocation budget (item 142)", async () => {
    const { on, keys, secret } = await rig();
    const styles = () => on.call({ path: "/design/styles", credential: secret });
    expect((await styles()).status).toBe(200);
    keys.setFault("accepted-then-closed");
    expect((await styles()).status).toBe(200);
    await until("the cache to be too old", async () => (await styles()).status === 503);
  });
});

describe("both at once", () => {
  test("the first that is asked decides, and both heal", async () => {
    const { on, keys, limiter, org } = await rig();
    const { secret } = await on.serverKey(org);
    keys.setFault("request-lost");
    limiter.setFault("request-lost");
    const styles = () => on.call({ path: "/design/styles", credential: secret });
    expect(outcomeOf(await styles())).toBe("503");
    keys.setFault("none");
    await until("the key service to answer", async () => outcomeOf(await styles()) === "429 limiter_unavailable");
    limiter.setFault("none");
    await until("the limiter to answer", async () => (await styles()).status === 200);
  });
});
