/** Whatever throws while a load is played, nothing of it goes on when that is known. */
import type { ChildProcess } from "node:child_process";
import { setTimeout as later } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Drive, Driver } from "../drivers/driver.ts";
import { inHand } from "./play.ts";

const drive = { job: { stage: "s" } } as unknown as Drive;
const child = { pid: 7 } as ChildProcess;

const played = async (driver: Driver, isHealedAfterMs: number | null) => {
  const seen: string[] = [];
  const hands = {
    adopt: (name: string, pid: number) => {
      seen.push(`adopted ${name} ${pid}`);
      return () => void seen.push(`forgot ${pid}`);
    },
    ownFolder: (_name: string, path: string) => {
      seen.push(`owned ${path}`);
      return () => void seen.push(`forgot ${path}`);
    },
  };
  const beside = async (loadOver: AbortSignal): Promise<void> => {
    seen.push("broken");
    await new Promise((resolve) => loadOver.addEventListener("abort", resolve));
    await later(isHealedAfterMs ?? 0);
    if (isHealedAfterMs === null) throw new Error("cannot be healed");
    seen.push("healed");
  };
  const error = await inHand(
    hands,
    "the driver",
    driver,
  )(drive, beside).then(
    () => null,
    (thrown: Error) => thrown.message,
  );
  return { seen, error };
};

const throwing: Driver = async (given, beside) => {
  given.onSpawn?.(child);
  given.onFolder?.("/handed");
  void beside?.();
  await later(5);
  throw new Error("the driver broke");
};

test("a driver that throws leaves nothing beside it: what it broke is healed before anybody hears of it", async () => {
  const { seen, error } = await played(throwing, 30);
  expect(error).toBe("the driver broke");
  expect(seen).toEqual([
    ...["adopted the driver 7", "owned /handed", "broken"],
    ...["healed", "forgot /handed", "forgot 7"],
  ]);
});

test("what fails beside a load is known once the load is over, and children are let go all the same", async () => {
  const ending: Driver = async (given, beside) => {
    given.onSpawn?.(child);
    void beside?.();
    return { problems: [], notes: [], host: null, scheduledMs: 1 };
  };
  const { seen, error } = await played(ending, null);
  expect(error).toBe("cannot be healed");
  expect(seen).toEqual(["adopted the driver 7", "broken", "forgot 7"]);
});
