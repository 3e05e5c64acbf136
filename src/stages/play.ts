/** A driver in the hands of a run: whatever throws, its load and what happens beside it have ended when it returns. */
import type { Drive, Driven, Driver } from "../drivers/driver.ts";
import type { Supervisor } from "../supervision/supervisor.ts";

/** Ends processes and removes folders if the runner cannot. */
export type Hands = Pick<Supervisor, "adopt" | "ownFolder">;

/** Where there is no run: children die with the runner's pipe. */
export const NO_HANDS: Hands = { adopt: () => () => undefined, ownFolder: () => () => undefined };

/** `beside` runs while the load does, and ends it when it resolves; its signal fires when the load is over. */
type DriverInHand = (drive: Drive, beside?: (loadOver: AbortSignal) => Promise<void>) => Promise<Driven>;

export const inHand =
  (hands: Hands, name: string, driver: Driver): DriverInHand =>
  async (drive, beside) => {
    const forgets: (() => void)[] = [];
    const loadOver = new AbortController();
    let besideOver: Promise<void> = Promise.resolve();
    const begun = (): Promise<void> => {
      besideOver = beside?.(loadOver.signal) ?? besideOver;
      besideOver.catch(() => undefined);
      return besideOver;
    };
    const inHands: Drive = {
      ...drive,
      onSpawn: (child) => {
        drive.onSpawn?.(child);
        if (child.pid !== undefined) forgets.push(hands.adopt(name, child.pid));
      },
      onFolder: (path) => void forgets.push(hands.ownFolder(`${drive.job.stage}: what ${name} is handed`, path)),
    };
    try {
      return await driver(inHands, beside === undefined ? undefined : begun);
    } finally {
      loadOver.abort();
      try {
        await besideOver;
      } finally {
        for (const forget of forgets) forget();
      }
    }
  };
