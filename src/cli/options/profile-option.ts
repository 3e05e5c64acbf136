/** `--profile`: how the rate of a load runs over time. */
import { existsSync, readFileSync, statSync } from "node:fs";
import { EXIT } from "../../run/exit-codes.ts";
import type { ScenarioWish } from "../../run/suites/scenario.ts";
import { PROFILES } from "../../workload/load-profiles.ts";
import { readAccessLog } from "../../workload/trace.ts";
import { CommandError } from "../command-error.ts";

export const PROFILE_NAMES = Object.keys(PROFILES).join(", ");

/** A load profile by its name, or an access log to be replayed: of it nothing is kept but when calls came. */
export const profileOf = (wanted: string | undefined): Pick<ScenarioWish, "loadProfile" | "replayOfMs"> => {
  if (wanted === undefined) return {};
  if (Object.hasOwn(PROFILES, wanted)) return { loadProfile: wanted };
  if (!existsSync(wanted) || !statSync(wanted).isFile()) {
    throw new CommandError(
      EXIT.usage,
      `--profile: expected one of ${PROFILE_NAMES}, or an access log; there is no file ${wanted}`,
    );
  }
  const { atMs, skipped } = readAccessLog(readFileSync(wanted, "utf8"));
  if (atMs.length < 2) {
    throw new CommandError(
      EXIT.usage,
      `--profile ${wanted}: expected an access log with a time in each line; got ${atMs.length} lines with one and ${skipped} without`,
    );
  }
  return { replayOfMs: atMs };
};
