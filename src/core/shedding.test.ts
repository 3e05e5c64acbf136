import { describe, expect, test } from "vitest";
import { fixedShedder } from "./shedding.ts";

describe("fixed caps", () => {
  test("a replica takes as many as its cap, and another when one has left", () => {
    const shedder = fixedShedder({ globalInFlight: 2, orgInFlight: 9 });
    expect([shedder.enter(), shedder.enter(), shedder.enter()]).toEqual([true, true, false]);
    shedder.leave();
    expect([shedder.enter(), shedder.inFlight()]).toEqual([true, 2]);
  });

  test("an organization's cap is its own affair", () => {
    const shedder = fixedShedder({ globalInFlight: 9, orgInFlight: 1 });
    expect(shedder.enterOrganization("a", null)).toBe(true);
    expect(shedder.enterOrganization("a", null)).toBe(false);
    expect(shedder.enterOrganization("b", null)).toBe(true);
    shedder.leaveOrganization("a");
    expect(shedder.inFlightByOrganization()).toEqual({ b: 1 });
  });

  test.each<[string, number, boolean[]]>([
    ["above the default", 2, [true, true, false]],
    ["nothing at all", 0, [false, false, false]],
  ])("an organization may have a cap of its own: %s", (_, cap, expected) => {
    const shedder = fixedShedder({ globalInFlight: 9, orgInFlight: 1 });
    expect([0, 1, 2].map(() => shedder.enterOrganization("a", cap))).toEqual(expected);
  });

  test("a cap that falls below what is in flight admits nobody until enough have left", () => {
    const shedder = fixedShedder({ globalInFlight: 3, orgInFlight: 3 });
    for (let i = 0; i < 3; i += 1) shedder.enter();
    shedder.setCaps({ globalInFlight: 1 });
    expect(shedder.enter()).toBe(false);
    for (let i = 0; i < 3; i += 1) shedder.leave();
    expect([shedder.enter(), shedder.enter()]).toEqual([true, false]);
  });
});
