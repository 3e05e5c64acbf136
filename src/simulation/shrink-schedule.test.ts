import { expect, test } from "vitest";
import type { FaultEvent, FaultSchedule } from "../faults/fault-schedule.ts";
import { shrinkSchedule } from "./search-schedules.ts";

const event = (fault: string, atMs: number, forMs = 1_600): FaultEvent => ({ link: "limiter", fault, atMs, forMs });
const FIVE: FaultSchedule = {
  seed: 1,
  story: "broken-dependency",
  ratePerS: 60,
  events: ["refused", "reset", "trickle", "reply-lost", "request-lost"].map((fault, at) => event(fault, 1_000 + at)),
};
const has = ({ events }: FaultSchedule, ...faults: string[]): boolean =>
  faults.every((fault) => events.some((one) => one.fault === fault));

test("what is not needed is left out, wherever it stands", async () => {
  const one = await shrinkSchedule(FIVE, async (schedule) => has(schedule, "trickle"), 200);
  expect(one.events.map(({ fault }) => fault)).toEqual(["trickle"]);
  const two = await shrinkSchedule(FIVE, async (schedule) => has(schedule, "refused", "request-lost"), 200);
  expect(two.events.map(({ fault }) => fault)).toEqual(["refused", "request-lost"]);
});

test("what is left is as short, and its load as light, as still fails", async () => {
  const needs400ms = async ({ events }: FaultSchedule): Promise<boolean> => (events[0]?.forMs ?? 0) >= 400;
  const { events, ratePerS } = await shrinkSchedule(FIVE, needs400ms, 200);
  expect(events).toHaveLength(1);
  expect(events[0]?.forMs).toBe(400);
  expect(ratePerS).toBeLessThanOrEqual(8);
});

test("trials are bounded, and what is known by then is the answer", async () => {
  let asked = 0;
  const smallest = await shrinkSchedule(
    FIVE,
    async (schedule) => {
      asked += 1;
      return has(schedule, "trickle");
    },
    3,
  );
  expect(asked).toBe(3);
  expect(has(smallest, "trickle")).toBe(true);
});
