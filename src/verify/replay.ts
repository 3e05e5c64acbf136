/** Replays a recorded failing case (`dev replay FILE`). */
import { RECORDED_BOUNDS, readUserJson } from "../supervision/user-file.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { ruleOf } from "./catalogue.ts";
import { CRASH_SCHEMA, type Crash } from "./crash.ts";
import { runVerify } from "./run-verify.ts";

type Replayed = { verdict: "fixed" | "failing" | "unclear"; reason: string; expected: string; got: string };

export class CrashFileError extends Error {
  override name = "CrashFileError";
}

export const readCrash = async (file: string): Promise<Crash> => {
  let crash: Partial<Crash>;
  try {
    crash = readUserJson(file, RECORDED_BOUNDS) as Partial<Crash>;
  } catch (error) {
    throw new CrashFileError(`${file}: expected a crash file in JSON, but ${(error as Error).message}`);
  }
  if (crash.schema !== CRASH_SCHEMA || typeof crash.rule !== "string")
    throw new CrashFileError(`${file}: expected "schema": "${CRASH_SCHEMA}", got ${JSON.stringify(crash.schema)}`);
  return crash as Crash;
};

const VERDICT = { pass: "fixed", fail: "failing", inconclusive: "unclear", skipped: "unclear" } as const;

/** Runs the crash's whole rule with its seed and permissions, because its calls need fresh sessions and keys. */
export const replayCrash = async (crash: Crash, target: Target, secrets: Secrets): Promise<Replayed> => {
  const unclear = { verdict: "unclear", expected: crash.expected, got: "not tried" } as const;
  if (ruleOf(crash.rule) === undefined) return { ...unclear, reason: `there is no rule ${crash.rule} any more` };
  const { claims } = await runVerify({
    ...{ target, secrets, seed: crash.seed, only: [crash.rule], stage: "replay" },
    allowWrites: crash.allowed.includes("writes"),
    allowQuotaBurn: crash.allowed.includes("quota-burn"),
    allowLoad: crash.allowed.includes("load"),
  });
  const [claim] = claims;
  if (claim === undefined) return { ...unclear, reason: "nothing was judged" };
  return { verdict: VERDICT[claim.verdict], reason: claim.reason, expected: claim.expected, got: claim.got };
};
