import { describe, expect, test } from "vitest";
import { CALM } from "../history/machines.fixture.ts";
import type { StageFacts, StageHost } from "../history/run-document.ts";
import { INVARIANTS } from "./catalogue.ts";
import { type ClaimedVerdict, judgedOn } from "./on-host.fixture.ts";

const host = (more: Partial<StageHost>): StageHost => ({ ...CALM, other_cores: 0, lag_ms: [], ...more });

const on = (verdict: ClaimedVerdict, isTimed: boolean, given?: StageHost): ReturnType<typeof judgedOn> => {
  const facts: StageFacts = {
    stage: "s",
    exclusive: true,
    limits: {},
    shedding: "fixed",
    tenants: {},
    faults: false,
    drained: true,
    ...(given === undefined ? {} : { host: given }),
  };
  return judgedOn(verdict, isTimed, facts);
};

test("only a should is about time, so that no busy machine leaves open what must hold", () => {
  expect(INVARIANTS.filter(({ time, level }) => time !== undefined && level !== "should")).toEqual([]);
  expect(INVARIANTS.filter(({ time }) => time !== undefined).map(({ id }) => id)).toEqual(
    expect.arrayContaining(["refusals-are-cheap", "events-are-not-buffered"]),
  );
});

describe("a finding beside what generator and host did", () => {
  const starved = host({ other_cores: 1.9 });
  const slowed = host({ other_cores: 0.4 });

  test("about time has no verdict when the generator was starved, and cannot fail when others made calls slower", () => {
    expect(on("pass", true, starved)).toMatchObject({
      verdict: "inconclusive",
      reason: expect.stringContaining("1.9"),
    });
    expect(on("fail", true, starved).verdict).toBe("inconclusive");
    expect(on("fail", true, slowed).verdict).toBe("inconclusive");
    expect(on("pass", true, slowed).verdict).toBe("pass");
    expect(on("fail", true, host({})).verdict).toBe("fail");
    expect(
      on(
        "fail",
        true,
        host({
          calibration: [
            { name: "k6: known stall, p99", driver: "k6", truth: 100, measured: 0, unit: "ms", verdict: "fail" },
          ],
        }),
      ).reason,
    ).toContain("k6: known stall");
  });

  test("about anything else is what it is", () => {
    for (const given of [starved, slowed, undefined]) {
      expect(on("fail", false, given).verdict).toBe("fail");
      expect(on("pass", false, given).verdict).toBe("pass");
    }
  });
});
