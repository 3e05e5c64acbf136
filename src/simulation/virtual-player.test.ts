/** The whole platform in virtual time, in its thread: the faults do what they are called, and planted mutants are found. */

import { afterAll, describe, expect, test } from "vitest";
import { EXPERIMENTS } from "../faults/experiments.ts";
import { drawSchedule, type FaultSchedule } from "../faults/fault-schedule.ts";
import { REFUSAL_OF } from "../invariants/evidence/fault-windows.ts";
import { type Finding, searchSchedules } from "./search-schedules.ts";
import { startVirtualPlayer } from "./virtual-player.ts";

describe("the healthy platform", () => {
  const player = startVirtualPlayer({ mutant: null });
  afterAll(player.close);

  /** Those with one broken link behind the API: processes and stores are none in virtual time. */
  const onLinks = [...EXPERIMENTS.values()].flatMap(({ name, faults, refuses, pastTheCap }) => {
    const [{ by, component: link, fault }] = faults;
    if (faults.length > 1 || by !== "link" || link === "edge" || pastTheCap) return [];
    return [{ name, link, fault, refuses }];
  });

  test.each(onLinks)("$name: refuses as the experiment says, and every invariant holds", async (one) => {
    const { link, fault, refuses } = one;
    const schedule: FaultSchedule = {
      seed: 3,
      story: "broken-dependency",
      ratePerS: 12,
      events: [{ link, fault, atMs: 1_000, forMs: 2_500 }],
    };
    const { failed, byOutcome, doubt } = await player.play(schedule);
    expect(failed).toEqual([]);
    expect(doubt).toBeNull();
    expect(byOutcome["200"]).toBeGreaterThan(20);
    const refused = byOutcome[REFUSAL_OF[link]] ?? 0;
    if (refuses === "none") expect(refused).toBe(0);
    else expect(refused).toBeGreaterThan(0);
  });

  test("a fault that is taken away beside another one does not let out what the other holds back", async () => {
    const schedule: FaultSchedule = {
      seed: 63,
      story: "broken-dependency",
      ratePerS: 60,
      events: [
        { link: "keys", fault: "slow-beyond-budget", atMs: 2_920, forMs: 1_666 },
        { link: "keys", fault: "truncated-reply", atMs: 3_576, forMs: 846 },
      ],
    };
    const { failed, byOutcome } = await player.play(schedule);
    expect(failed).toEqual([]);
    expect(byOutcome["503"]).toBeGreaterThan(0);
  });

  test("the same schedule gives the same calls, answered the same", async () => {
    const schedule = drawSchedule(1, 0);
    const told = async () => (await player.play(schedule)).byOutcome;
    expect(await told()).toEqual(await told());
  });
});

// explore.test.ts asks the same of "fails-open", by the command that a user types.
test.each(["refunds-twice", "stays-broken-after-healing"])(
  "%s is found within twenty schedules and shrunk to at most three events",
  async (mutant) => {
    const player = startVirtualPlayer({ mutant });
    const found: Finding[] = [];
    try {
      await searchSchedules({
        seed: 1,
        play: player.play,
        shrinkTrials: 12,
        repeatsItself: true,
        progress: () => undefined,
        goesOn: (schedules) => schedules < 20 && found.length === 0,
        found: async (finding) => void found.push(finding),
      });
    } finally {
      await player.close();
    }
    expect(found[0]?.isFlaky).toBe(false);
    expect(found[0]?.schedule.events.length).toBeLessThanOrEqual(3);
  },
);
