/** What the machine did during a block: time stolen by the hypervisor, and cores used by others than ourselves. */
import { watchMachineUse } from "../stages/machine-use.ts";
import { machineTime } from "../supervision/proc-files.ts";

const STEAL_MAX = 0.02;
const OTHERS_MAX_CORES = 0.25;

/** Starts watching; the function that it returns says how others disturbed us. Every child of this process is ours. */
export const watchHost = (): (() => string[]) => {
  const before = machineTime();
  const usedSince = watchMachineUse(null);
  return () => {
    const after = machineTime();
    const { other_cores: others } = usedSince();
    const doubts: string[] = [];
    if (before !== null && after !== null && after.steal - before.steal > STEAL_MAX * (after.all - before.all)) {
      doubts.push("the hypervisor took CPU time");
    }
    if (others !== null && others > OTHERS_MAX_CORES) doubts.push("other processes used the CPU");
    return doubts;
  };
};
