/** The thread that plays trials in virtual time, because its clock is not the process's. */

import { parentPort, workerData } from "node:worker_threads";
import type { FaultSchedule } from "../faults/fault-schedule.ts";
import { MUTANTS } from "../mutants/catalogue.ts";
import { HEALTHY, type Parts } from "../platform/parts.ts";
import { installVirtualTime } from "./virtual-time.ts";
import { createVirtualPlayer, VIRTUAL_START_MS, type VirtualLoad } from "./virtual-trial.ts";

export type ThreadData = {
  /** The mutant in place of the healthy platform, for trying the search itself. */
  mutant: string | null;
  /** In place of the load of a schedule; nothing is judged then. */
  load?: VirtualLoad;
};

const partsOf = ({ mutant }: ThreadData): Parts => {
  if (mutant === null) return HEALTHY;
  const found = MUTANTS.find(({ name }) => name === mutant);
  if (found === undefined) throw new Error(`there is no mutant "${mutant}"`);
  return found.spoil(HEALTHY);
};

if (parentPort !== null) {
  const port = parentPort;
  const data = workerData as ThreadData;
  const play = createVirtualPlayer(installVirtualTime(VIRTUAL_START_MS), partsOf(data), data.load);
  port.on("message", (schedule: FaultSchedule) => {
    play(schedule).then(
      (trial) => port.postMessage({ trial }),
      (error: unknown) => port.postMessage({ trouble: error instanceof Error ? error.message : String(error) }),
    );
  });
}
