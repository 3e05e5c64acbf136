import { Worker } from "node:worker_threads";
import type { FaultSchedule } from "../faults/fault-schedule.ts";
import type { PlaySchedule, Trial } from "./search-schedules.ts";
import type { ThreadData } from "./trial-thread.ts";

export type Player = { play: PlaySchedule; close(): Promise<void> };

type Said = { trial: Trial } | { trouble: string };

const THREAD = new URL("./trial-thread.ts", import.meta.url);
/** Real time for one trial, which takes a fraction of a second where nothing else runs: a last resort. */
const TRIAL_MS = 600_000;

export const startVirtualPlayer = (data: ThreadData): Player => {
  const thread = new Worker(THREAD, { workerData: data, execArgv: ["--disable-warning=ExperimentalWarning"] });
  let over: Error | null = null;
  let answer: { resolve(trial: Trial): void; reject(error: Error): void } | null = null;
  const fail = (error: Error): void => {
    over = error;
    answer?.reject(error);
  };
  thread.on("message", (said: Said) => {
    if ("trial" in said) answer?.resolve(said.trial);
    else answer?.reject(new Error(said.trouble));
  });
  thread.on("error", fail);
  thread.on("exit", () => fail(new Error("the thread of the trials has ended")));
  return {
    play: async (schedule: FaultSchedule) => {
      if (over !== null) throw over;
      const { promise, resolve, reject } = Promise.withResolvers<Trial>();
      answer = { resolve, reject };
      const timer = setTimeout(() => reject(new Error(`a trial took longer than ${TRIAL_MS} ms`)), TRIAL_MS);
      thread.postMessage(schedule);
      try {
        return await promise;
      } finally {
        clearTimeout(timer);
        answer = null;
      }
    },
    close: async () => void (await thread.terminate()),
  };
};
