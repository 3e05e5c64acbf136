import { expect, test } from "vitest";
import { lateBy } from "../history/machines.fixture.ts";
import { claimOf, type StageSummary } from "../history/run-document.ts";
import { mergeClaims } from "../report/verdict.ts";
import { stageOf } from "../run/suites/suites.ts";
import { onThisMachine, reachedClaims } from "./stage-claims.ts";

const claimsAfter = (by_outcome: Record<string, number>, staysBelow?: true) => {
  const summary: StageSummary = {
    name: "chat-past-capacity",
    driver: "k6",
    duration_ms: 1,
    calls: { sent: 0, answered: 0, refused: 0, indeterminate: 0 },
    by_outcome,
  };
  const reach = {
    all: ["200"],
    oneOf: [],
    beyond: [{ outcome: "429 b2b_overloaded", reason: "60 streams/s do not overload what carries 60/s", staysBelow }],
  };
  return reachedClaims(
    stageOf("chat-past-capacity", { durationS: 10 }),
    { summary, problems: [], notes: [], reach },
    "-",
  );
};

const idsAfter = (...of: Parameters<typeof claimsAfter>): string[] =>
  claimsAfter(...of).map(({ id, verdict }) => `${verdict} ${id}`);

test("what cannot be reached is said, unless it came all the same", () => {
  expect(idsAfter({ "200": 9 })).toEqual(["pass reached/chat-past-capacity", "skipped beyond/chat-past-capacity"]);
  expect(idsAfter({ "200": 9, "429 b2b_overloaded": 2 })).toEqual(["pass reached/chat-past-capacity"]);
});

test("a stage that stayed below what it is made to exceed has not passed, and alone in its run decides nothing", () => {
  const ids = ["skipped reached/chat-past-capacity", "skipped beyond/chat-past-capacity"];
  expect(idsAfter({ "200": 9 }, true)).toEqual(ids);
  const judged = claimOf({
    ...{
      id: "streams-end-once/chat-past-capacity",
      stage: "chat-past-capacity",
      verdict: "pass",
      code: "held",
      reason: "",
    },
    ...{ expected: "", replay: "-" },
  });
  const merged = mergeClaims([...claimsAfter({ "200": 9 }, true), judged], ["reached/chat-past-capacity"]);
  expect(merged).toMatchObject({ verdict: "inconclusive", reason: expect.stringContaining("60 streams/s do not") });
  // Among the stages of a suite it is skipped by name.
  expect(mergeClaims([...claimsAfter({ "200": 9 }, true), judged], []).verdict).toBe("pass");
  // By chance, by others or by another cap it was refused all the same.
  expect(idsAfter({ "200": 9, "429 org_overloaded": 2 }, true)[0]).toBe("pass reached/chat-past-capacity");
});

const afterFault = (states: StageSummary["states"]) => {
  const summary: StageSummary = {
    ...{ name: "limiter-refused", driver: "open-loop", duration_ms: 1, by_outcome: { "200": 9 } },
    calls: { sent: 0, answered: 0, refused: 0, indeterminate: 0 },
    ...(states === undefined ? {} : { states }),
  };
  const reach = { all: ["200"], oneOf: [], beyond: [] };
  const [claim] = reachedClaims(
    stageOf("chat-past-capacity", { durationS: 10 }),
    { summary, problems: [], notes: [], reach },
    "-",
  );
  return claim;
};

test("a fault that never met what it has to meet proves nothing; what nobody shows is not held against it", () => {
  expect(afterFault([{ state: "last-unit", must: true, times: 2 }])?.verdict).toBe("pass");
  expect(afterFault([{ state: "last-unit", must: true, times: null }])?.verdict).toBe("pass");
  expect(afterFault([{ state: "last-unit", must: false, times: 0 }])?.verdict).toBe("pass");
  expect(afterFault([{ state: "last-unit", must: true, times: 0 }])).toMatchObject({
    verdict: "inconclusive",
    reason: "never met by the fault: last unit of an allowance taken",
  });
});

test("a recovery that came too late is no failure where the machine stood still for half of the budget", () => {
  const late = { verdict: "fail", code: "broken", reason: "no recovery by the deadline", about: "recovery" } as const;
  expect(onThisMachine(late, lateBy(100))).toEqual(late);
  expect(onThisMachine(late, lateBy(200))).toMatchObject({
    ...{ verdict: "inconclusive", code: "machine-disturbed" },
    reason: expect.stringContaining("200 ms late"),
  });
  const other = { verdict: "fail", code: "broken", reason: "the fault could not be healed" } as const;
  expect(onThisMachine(other, lateBy(200))).toEqual(other);
});
