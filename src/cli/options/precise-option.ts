/** What `--precise` needs, before anything is started: a driver that can wait awake, and cores that nobody else needs. */
import { availableParallelism } from "node:os";
import { EXIT } from "../../run/exit-codes.ts";
import type { LoadStage } from "../../stages/stage-plan.ts";
import { CommandError } from "../command-error.ts";

/** Throws a sentence; `segments`: how many processes would each take a core. */
export const checkPrecise = (driver: LoadStage["driver"], segments = 1, cores = availableParallelism()): void => {
  if (driver !== "open-loop") {
    throw new CommandError(
      EXIT.usage,
      `only the open-loop driver has --precise, and this is ${driver}; expected --driver open-loop`,
    );
  }
  if (segments < cores) return;
  throw new CommandError(
    EXIT.usage,
    `--precise takes a whole core for each process: expected ${segments + 1} cores or more, got ${cores}; leave it out`,
  );
};
