/** Plays `verify`: the rules alone, on the deployment of a target file or the embedded one. */

import { openDeployment } from "../deployments/embedded.ts";
import { prepareTarget, readTarget } from "../stages/prepare-target.ts";
import { playRules } from "../stages/verify-stage.ts";
import { chosenRules } from "../verify/catalogue.ts";
import { planVerify } from "../verify/planning/plan.ts";
import type { VerifyProgress, VerifyResult } from "../verify/run-verify.ts";
import { RATE_PER_S } from "../verify/sending/throttle.ts";
import { type Asked, type RunResult, recordRun } from "./recorded-run.ts";

/** The most calls of a pass over all rules; the target file's budget may allow fewer. */
const CALLS_AT_MOST = 1_200;
/** The time after a stop to remove created objects at the permitted rate. */
const STOP_MS = 60_000;

export type VerifyWishes = Record<"only" | "skip", readonly string[] | undefined> &
  Record<"allowWrites" | "allowQuotaBurn" | "allowLoad", boolean> & { ratePerS: number | undefined };

type Place = { targetFile: string; owned: readonly string[] };

type VerifyRun = Asked &
  VerifyWishes &
  Place & { requireAll: boolean; keepsAnswers: boolean; onProgress(progress: VerifyProgress): void };

const intent = (allowLoad: boolean) => ({ load: allowLoad, faults: false, requests: CALLS_AT_MOST });

/** Plans from the target file alone: reads no secret, locks nothing, sends nothing. */
export const planOfTarget = async (wishes: VerifyWishes & Place) => {
  const { only, skip, owned, ratePerS = RATE_PER_S, allowLoad } = wishes;
  const rules = chosenRules(only, skip);
  const { target, refusals } = await readTarget(wishes.targetFile, owned, intent(allowLoad));
  return { plan: planVerify(target, rules, { ...wishes, ratePerS }), refusedByGuard: refusals };
};

/** Throws for a user's mistake before anything is sent: target file, guard, lock, an unknown rule. */
export const verifyTarget = async (request: VerifyRun): Promise<RunResult> => {
  const { targetFile, owned, only, skip, requireAll, allowLoad } = request;
  chosenRules(only, skip);
  const targets = [await prepareTarget(targetFile, owned, intent(allowLoad))];
  let result: VerifyResult | null = null;
  const required = (): string[] => {
    // Rules about what no client can cause (an error event, a lost key service) are not required.
    const idle = new Set(result?.idle);
    return requireAll ? (result?.claims ?? []).map(({ id }) => id).filter((id) => !idle.has(id)) : [];
  };
  const about = { profile: "verify", stopMs: STOP_MS, canJudge: (name: string) => name.split("/")[0] === "verify" };
  return recordRun({ ...request, ...about, targets, required }, async (context) => {
    const played = await playRules(context, await openDeployment(context), request);
    result = played.result;
    await context.addStage(played.outcome);
  });
};
