import { expect, test } from "vitest";
import type { FaultSchedule } from "../faults/fault-schedule.ts";
import { claimOf } from "../history/claim.fixture.ts";
import type { Claim } from "../history/run-document.ts";
import { type Finding, type PlaySchedule, searchSchedules, type Trial } from "./search-schedules.ts";

const claim = (id: string): Claim =>
  claimOf(id, { stage: "explore", verdict: "fail", reason: "broken", expected: "whole", got: "broken" });
const trial = (ids: string[]): Trial => ({
  failed: ids.map(claim),
  byOutcome: { "200": 10 },
  stage: "explore",
  lines: [],
  doubt: null,
  facts: {
    stage: "explore",
    limits: {},
    shedding: "fixed",
    exclusive: true,
    tenants: {},
    faults: true,
    drained: true,
  },
});

const search = async (play: PlaySchedule, most = 40, repeatsItself = false) => {
  const found: Finding[] = [];
  const searched = await searchSchedules({
    seed: 1,
    play,
    shrinkTrials: 100,
    repeatsItself,
    progress: () => undefined,
    goesOn: (n) => n < most,
    found: async (finding) => void found.push(finding),
  });
  return { searched, found };
};
const hasReset = ({ events }: FaultSchedule): boolean => events.some(({ fault }) => fault === "reset");

test("a platform that holds: as many schedules as were asked for, and nothing found", async () => {
  const { searched } = await search(async () => trial([]));
  expect(searched).toMatchObject({ schedules: 40, findings: [], byOutcome: { "200": 400 } });
  expect(searched.events).toBeGreaterThan(60);
});

test("what always fails is found once and made short", async () => {
  const { found, searched } = await search(async (schedule) =>
    trial(hasReset(schedule) ? ["charged-once/explore"] : []),
  );
  expect(found).toHaveLength(1);
  expect(found[0]).toMatchObject({ isFlaky: false, replayed: { failed: 3, of: 3 } });
  expect(found[0]?.schedule.events).toMatchObject([{ fault: "reset" }]);
  expect(searched.schedules).toBe(40);
});

test("where a play repeats itself, one decides about a shorter schedule, and three about the shortest", async () => {
  const played: FaultSchedule[] = [];
  const play: PlaySchedule = async (schedule) => {
    played.push(schedule);
    return trial(hasReset(schedule) ? ["charged-once/explore"] : []);
  };
  const { found } = await search(play, 40, true);
  const [{ drawn, schedule } = { drawn: undefined, schedule: undefined }] = found;
  expect(found[0]).toMatchObject({ isFlaky: false, replayed: { failed: 3, of: 3 } });
  expect(schedule?.events).toMatchObject([{ fault: "reset" }]);
  const times = new Map<FaultSchedule, number>();
  for (const one of played) times.set(one, (times.get(one) ?? 0) + 1);
  // The drawn one is played once, and then three times; the shortest once, and then three times.
  expect([...times].filter(([, n]) => n > 1)).toEqual([
    [drawn, 4],
    [schedule, 4],
  ]);
});

test("what failed once and not again is flaky, and is not shrunk", async () => {
  let plays = 0;
  const { found } = await search(async () => trial(plays++ === 0 ? ["recovers/explore"] : []), 1);
  expect(found[0]).toMatchObject({ isFlaky: true, replayed: { failed: 0, of: 3 } });
  expect(found[0]?.schedule).toEqual(found[0]?.drawn);
});

test("three of five is enough", async () => {
  let plays = 0;
  const failing = [true, true, false, true, false, true];
  const { found } = await search(async () => trial(failing[plays++] === true ? ["recovers/explore"] : []), 1);
  expect(found[0]).toMatchObject({ isFlaky: false });
});
