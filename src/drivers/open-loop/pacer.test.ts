import { expect, test } from "vitest";
import { createRunClock, wallUs } from "../../supervision/waiting.ts";
import { startPacer } from "./play-schedule.ts";

const listOf = (times: number[]): (() => number | null) => {
  let at = 0;
  return () => times[at++] ?? null;
};

test("fires each moment once, in order, never before its time", async () => {
  const clock = createRunClock(wallUs());
  const times = Array.from({ length: 100 }, (_, k) => 20_000 + k * 700);
  const fired: { dueUs: number; atUs: number }[] = [];
  await startPacer(clock, listOf(times), (dueUs) => fired.push({ dueUs, atUs: clock.nowUs() })).finished;
  expect(fired.map(({ dueUs }) => dueUs)).toEqual(times);
  for (const { dueUs, atUs } of fired) expect(atUs).toBeGreaterThanOrEqual(dueUs);
});

test("after a pause of the process it catches up without forgetting any, and lets the loop turn meanwhile", async () => {
  const clock = createRunClock(wallUs());
  let fired = 0;
  let turns = 0;
  const pacer = startPacer(clock, listOf(Array.from({ length: 1000 }, (_, k) => 5_000 + k * 50)), () => {
    fired += 1;
  });
  const untilMs = performance.now() + 100;
  while (performance.now() < untilMs);
  const turn = (): void => {
    turns += 1;
    if (fired < 1000) setImmediate(turn);
  };
  setImmediate(turn);
  await pacer.finished;
  expect(fired).toBe(1000);
  expect(turns).toBeGreaterThan(5);
});

test("precise: it turns through all of the wait and says how long that was, otherwise it naps", async () => {
  const turned = async (precise: boolean): Promise<number> => {
    const clock = createRunClock(wallUs());
    const pacer = startPacer(clock, listOf([100_000, 140_000]), () => undefined, { precise });
    await pacer.finished;
    return pacer.spunUs();
  };
  const [asUsual, precisely] = [await turned(false), await turned(true)];
  // What others have of the core meanwhile is for the machine to say.
  expect(precisely).toBeGreaterThan(5 * asUsual);
  expect(precisely).toBeLessThan(140_000);
});

test("stop ends it before the next moment", async () => {
  const clock = createRunClock(wallUs());
  let fired = 0;
  const pacer = startPacer(clock, listOf([1_000, 600_000_000]), () => {
    fired += 1;
    pacer.stop();
  });
  await pacer.finished;
  expect(fired).toBe(1);
});
