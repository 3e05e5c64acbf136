/** `--limiter`: where the embedded deployment keeps its counts. */
import { Option } from "commander";
import { EXIT } from "../../run/exit-codes.ts";
import { CommandError } from "../command-error.ts";

type Limiter = "sqlite" | "redis";

const DEFAULT: Limiter = "sqlite";

export const limiterOption = (): Option =>
  new Option("--limiter <store>", "of the embedded deployment; redis needs redis-server on PATH")
    .choices(["sqlite", "redis"])
    .default(DEFAULT);

export const limiterOf = ({ limiter, target }: { limiter: Limiter; target?: string }): Limiter => {
  if (target === undefined || limiter === DEFAULT) return limiter;
  throw new CommandError(
    EXIT.usage,
    `expected either --target or --limiter ${limiter}: it is the embedded deployment that is started with it`,
  );
};

/** For the command that repeats a run. */
export const limiterWords = (limiter: Limiter): string[] => (limiter === DEFAULT ? [] : ["--limiter", limiter]);
