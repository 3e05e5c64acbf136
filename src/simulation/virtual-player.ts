/** Plays trials in virtual time in a worker thread, whose clock is replaced. This file starts the thread and runs in it. */
import { once } from "node:events";
import { parentPort, Worker, workerData } from "node:worker_threads";
import type { FaultSchedule } from "../faults/fault-schedule.ts";
import { mutantNamed } from "../mutants/catalogue.ts";
import { HEALTHY } from "../platform/parts.ts";
import { inTime } from "../supervision/waiting.ts";
import type { PlaySchedule, Trial } from "./search-schedules.ts";
import { installVirtualTime } from "./virtual-time.ts";
import { createVirtualPlayer, VIRTUAL_START_MS, type VirtualLoad } from "./virtual-trial.ts";

export type Player = { play: PlaySchedule; close(): Promise<void> };

/** `mutant`: replaces the healthy platform. `load`: replaces the load of schedules; nothing is judged then. */
type Trials = { mutant: string | null; load?: VirtualLoad };

type Said = { trial: Trial } | { trouble: string };

const MARK = "floodgate-virtual-trials";
/** Real time for one trial, as a last resort: a trial takes a fraction of a second on an idle machine. */
const TRIAL_MS = 600_000;

export const startVirtualPlayer = (trials: Trials): Player => {
  const options = { workerData: { [MARK]: trials }, execArgv: ["--disable-warning=ExperimentalWarning"] };
  const thread = new Worker(new URL(import.meta.url), options);
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => undefined);
  thread.on("error", over.reject);
  thread.on("exit", () => over.reject(new Error("the thread of the trials has ended")));
  return {
    play: async (schedule) => {
      thread.postMessage(schedule);
      const answered = Promise.race([once(thread, "message") as Promise<[Said]>, over.promise]);
      const came = await inTime(answered, TRIAL_MS);
      if (came === "late") throw new Error(`a trial took longer than ${TRIAL_MS} ms`);
      if ("trouble" in came[0]) throw new Error(came[0].trouble);
      return came[0].trial;
    },
    close: async () => void (await thread.terminate()),
  };
};

const own = (workerData as Record<string, Trials> | null)?.[MARK];
if (own !== undefined) {
  const { mutant, load } = own;
  const parts = mutant === null ? HEALTHY : mutantNamed(mutant).spoil(HEALTHY);
  const play = createVirtualPlayer(installVirtualTime(VIRTUAL_START_MS), parts, load);
  parentPort?.on("message", (schedule: FaultSchedule) => {
    play(schedule).then(
      (trial) => parentPort?.postMessage({ trial }),
      (error: Error) => parentPort?.postMessage({ trouble: error.message }),
    );
  });
}
