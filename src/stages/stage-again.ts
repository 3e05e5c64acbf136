/**
 * An experiment that was left undecided while the machine was disturbed is played once more: on a machine that others use as
 * well it would otherwise be chance whether a night of fifty experiments says anything. What failed stays failed, and what was
 * decided is never played again. What becomes of the claims: history/played-again.ts.
 */

import { consequencesOf } from "../faults/disturbance.ts";
import { isUndecided, secondOf } from "../history/played-again.ts";
import type { Claim } from "../history/run-document.ts";
import type { StageHost } from "../history/stage-host.ts";
import type { StageOutcome } from "../history/stage-outcome.ts";
import { hostNotesOf } from "../history/time-doubts.ts";
import type { LoadStage, StagePlan } from "./stage-plan.ts";

/** On a machine that disturbs more than these, the same again would say no more. */
export const PLAYED_AGAIN_MAX = 5;

const isBroken = ({ level, verdict }: Claim): boolean => level === "must" && verdict === "fail";

const wasDisturbed = (host: StageHost | undefined): boolean => host !== undefined && hostNotesOf(host).length > 0;

/** It uses up what it is about: units that are the last of their organizations, or the beginning of a month. */
const happensOnce = ({ tenants, story, disturbance }: LoadStage): boolean =>
  tenants === "last-units" || story === "last-units" || consequencesOf(disturbance).movesClock;

/** The stage to play once more; `null` where it is decided, or where the machine is not the reason that anybody saw. */
export const stageAgain = (plan: StagePlan, outcome: StageOutcome): LoadStage | null => {
  if (plan.kind !== "load" || plan.disturbance === undefined || consequencesOf(plan.disturbance).isDrawn) return null;
  const { claims, facts, isLeftBroken } = outcome;
  if (happensOnce(plan) || !claims.some(isUndecided) || claims.some(isBroken) || isLeftBroken) return null;
  return wasDisturbed(facts.host) ? { ...plan, name: secondOf(plan.name) } : null;
};
