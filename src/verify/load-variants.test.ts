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
      expect(overload?.reason).toMatch(/5 streams at once; transport.connections is 6/);
  });

  test("passes also where others fill the deployment now and then", async () => {
    const { claims } = await verifySecondApi(
      { variants: ["strays"] },
      {
        only: ["load"],
        allowLoad: true,
      },
    );
    expect(claims.filter(({ verdict }) => verdict === "fail").map(({ id, got }) => `${id}: ${got}`)).toEqual([]);
    expect(claims.find(({ id }) => id === "verify/overload-names-the-cap")?.verdict).toBe("pass");
    expect(claims.find(({ id }) => id === "verify/overload-is-reported")?.verdict).toBe("pass");
    expect(claims.find(({ id }) => id === "verify/slots-come-back")?.verdict).toBe("pass");
  });
});
