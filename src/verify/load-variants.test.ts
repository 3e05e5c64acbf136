import { describe, expect, test } from "vitest";
import { verifySecondApi } from "./verify-second-api.fixture.ts";

// Most of it is waiting: each has a server of its own.
describe.concurrent("a conforming deployment that is not ours, under load", () => {
  test.each([
    "has-middling-caps",
    "has-tenants",
    "stumbles",
    "has-a-stumbling-limiter",
    "has-small-caps",
    "few-connections",
  ] as const)("is not blamed for what no limit has to do with: %s", async (variant) => {
    const { claims } = await verifySecondApi(
      { variants: [variant, "no-rate-limit"] },
      {
        only: ["load"],
        allowLoad: true,
      },
    );
    const wrong = claims.filter(({ level, verdict }) => level === "must" && /fail|inconclusive/.test(verdict));
    expect(wrong.map(({ id, got, reason }) => `${id}: ${reason}; ${got}`)).toEqual([]);
    const overload = claims.find(({ id }) => id === "verify/overload-is-reported");
    if (variant === "few-connections")
      expect(overload?.reason).toMatch(/by 5 streams, \d of them at once; transport.connections is 6/);
  });

  // Streams that outlast a wave, also on a machine that is slow to send it.
  const streamMs = 800;

  test("is seen to be full by two organizations whose caps together just make the global one", async () => {
    const { claims } = await verifySecondApi(
      { variants: ["has-middling-caps", "no-rate-limit"], streamMs },
      { only: ["overload-is-no-outage"], allowLoad: true },
    );
    expect(claims.map(({ verdict, reason }) => `${verdict} ${reason}`).join()).toMatch(/^pass /);
  });

  test("is judged in full whichever of the calls meets others", async () => {
    // Every fortieth call is refused: each server has answered another number of them before.
    const judged = Array.from({ length: 10 }, async (_, k) => {
      const { claims } = await verifySecondApi({ variants: ["strays"], streamMs }, async ({ target }) => {
        for (let i = 0; i < 4 * k; i++) await (await fetch(`${target.base_url}/nothing`)).text();
        return {
          only: ["overload-is-reported", "overload-names-the-cap", "slots-come-back"],
          allowLoad: true,
        };
      });
      return claims.map(({ id, verdict, reason }) => `${id}: ${verdict}${verdict === "pass" ? "" : ` ${reason}`}`);
    });
    const passes = [
      "verify/overload-is-reported: pass",
      "verify/overload-names-the-cap: pass",
      "verify/slots-come-back: pass",
    ];
    expect(await Promise.all(judged)).toEqual(Array(10).fill(passes));
  });

  test("passes also where others fill the deployment now and then", async () => {
    const { claims } = await verifySecondApi({ variants: ["strays"], streamMs }, { only: ["load"], allowLoad: true });
    expect(claims.filter(({ verdict }) => verdict === "fail").map(({ id, got }) => `${id}: ${got}`)).toEqual([]);
    expect(claims.find(({ id }) => id === "verify/overload-names-the-cap")?.verdict).toBe("pass");
    expect(claims.find(({ id }) => id === "verify/overload-is-reported")?.verdict).toBe("pass");
    expect(claims.find(({ id }) => id === "verify/slots-come-back")?.verdict).toBe("pass");
  });
});
