/** Options that every command which works on a deployment has (interface.md section 1). */

import { join } from "node:path";
import { type Command, Option } from "commander";
import { REPOSITORY } from "../../supervision/repository.ts";
import { whole } from "./numbers.ts";
import { once } from "./once.ts";
import { I_OWN } from "./owned-hosts.ts";

export type TargetOptions = {
  target?: string;
  seed?: number;
  out?: string;
  json?: boolean;
  quiet?: boolean;
  dryRun?: boolean;
  iOwn?: string[];
  heal?: boolean;
};

/** Said where a command that needs a target file was given none. */
export const ON_SERVED =
  "no --target: played on the reference platform, started here (24 slots of 200 ms, 12 tenants); `npx floodgate init --target URL` writes a file for your deployment";

export const outOption = (): Option =>
  new Option("--out <dir>", "where the run folder is made (default: under reports/runs)").env("FLOODGATE_OUT");

export const withTargetOptions = (command: Command): Command =>
  command
    .option("--target <file>", "target file of the deployment", once)
    .option(...I_OWN)
    .option("--dry-run", "send nothing; show what would be sent and spent")
    .option("--seed <n>", "repeats the schedule and choices of the run with this seed", whole(0))
    .addOption(outOption())
    .option("--heal", "first take back what earlier runs left broken (reports/runs)")
    .option("--json", "print run.json on stdout")
    .option("--quiet", "no progress; the verdict is still printed");

/** What of them every recorded run takes. */
export const runOptions = (
  options: TargetOptions,
): { seed: number; reports: string; owned: readonly string[]; out?: string; healFirst?: boolean } => ({
  seed: options.seed ?? Math.floor(Math.random() * 2 ** 31),
  reports: join(REPOSITORY, "reports"),
  owned: options.iOwn ?? [],
  ...(options.out === undefined ? {} : { out: options.out }),
  ...(options.heal === true ? { healFirst: true } : {}),
});

/** The command that repeats a run, as it may be typed. */
export const commandLine = (words: readonly string[], options: TargetOptions, seed: number): string =>
  [
    "npx floodgate",
    ...words,
    ...(options.target === undefined ? [] : ["--target", options.target]),
    ...(options.iOwn ?? []).flatMap((host) => ["--i-own", host]),
    "--seed",
    `${seed}`,
  ].join(" ");
