/** Which options do not go together, as tables that are checked before a command does anything. */
import { availableParallelism } from "node:os";
import type { Command } from "commander";
import { UsageError } from "../../run/exit-codes.ts";
import type { LoadStage } from "../../stages/stage-plan.ts";

/**
 * `[options, not with, sentence]`, where several stand with blanks between: none of the first goes with any of the second. `!option`
 * means that it is absent, `a|b` one or the other, `option=value` that it has this value. `$given` in the sentence names those of the first that were given.
 */
export type Exclusion = readonly [options: string, notWith: string, sentence: string];

const isGiven = (command: Command, what: string): boolean => {
  if (what.startsWith("!")) return !isGiven(command, what.slice(1));
  if (what.includes("|")) return what.split("|").some((one) => isGiven(command, one));
  const [name, wanted] = what.split("=");
  const option = command.options.find(({ long }) => long === `--${name}`);
  if (option === undefined) throw new Error(`${command.name()} has no option --${name}`);
  const value: unknown = command.getOptionValue(option.attributeName());
  if (wanted !== undefined) return value === wanted;
  const isTyped = command.getOptionValueSource(option.attributeName()) !== "default";
  return value !== undefined && isTyped && !(typeof value === "string" && value.trim() === "");
};

export const excluding = (command: Command, rows: readonly Exclusion[]): Command =>
  command.hook("preAction", () => {
    for (const [options, notWith, sentence] of rows) {
      const given = options.split(" ").filter((name) => isGiven(command, name));
      if (given.length === 0 || !notWith.split(" ").some((name) => isGiven(command, name))) continue;
      throw new UsageError(sentence.replace("$given", given.map((name) => `--${name.split("=")[0]}`).join(", ")));
    }
  });

/** Of the commands that have `--limiter`. */
export const EMBEDDED_ALONE: Exclusion = [
  "limiter=redis",
  "target",
  "expected either --target or --limiter redis: it is the embedded deployment that is started with it",
];

/** What `--precise` needs: a driver that can wait awake, and a core that nobody else needs for each of its processes. */
export const checkPrecise = (driver: LoadStage["driver"], segments = 1, cores = availableParallelism()): void => {
  if (driver !== "open-loop") {
    throw new UsageError(`only the open-loop driver has --precise, and this is ${driver}; expected --driver open-loop`);
  }
  if (segments < cores) return;
  throw new UsageError(
    `--precise takes a whole core for each process: expected ${segments + 1} cores or more, got ${cores}; leave it out`,
  );
};
