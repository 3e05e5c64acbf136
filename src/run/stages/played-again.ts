/**
 * An experiment that the machine left undecided is played once more: on a machine that others use as well it would otherwise
 * be chance whether a night of fifty experiments says anything. Only what could not be decided is given up for the second
 * playing; what failed stays failed, and an experiment that was decided is never played again.
 */
import type { Claim } from "../../history/run-document.ts";
import type { StageHost } from "../../history/stage-host.ts";
import { hostNotesOf } from "../../history/time-doubts.ts";
import { isDrawn } from "../disturbances/disturbance.ts";
import { type StageOutcome, wasNotHealed } from "./stage-outcome.ts";
import type { LoadStage, StagePlan } from "./stage-plan.ts";

/** On a machine that disturbs more than these, the same again would say no more. */
export const PLAYED_AGAIN_MAX = 5;

const isUndecided = ({ level, verdict }: Claim): boolean => level === "must" && verdict === "inconclusive";
const isBroken = ({ level, verdict }: Claim): boolean => level === "must" && verdict === "fail";

const wasDisturbed = (host: StageHost | undefined): boolean => host !== undefined && hostNotesOf(host).length > 0;

/** The stage to play once more; `null` where it is decided, or where the machine is not the reason that anybody saw. */
export const stageAgain = (plan: StagePlan, outcome: StageOutcome): LoadStage | null => {
  if (plan.kind !== "load" || plan.disturbance === undefined || isDrawn(plan.disturbance)) return null;
  const { claims, facts } = outcome;
  if (!claims.some(isUndecided) || claims.some(isBroken) || wasNotHealed(outcome)) return null;
  return wasDisturbed(facts.host) ? { ...plan, name: `${plan.name}-again` } : null;
};

/** A claim whose verdict is the one of another: it says nothing itself any more. */
export const judgedIn = (claim: Claim, other: string): Claim => ({
  ...claim,
  verdict: "skipped",
  reason: `judged in ${other}, because the machine disturbed this stage; here it was: ${claim.reason}`,
  judged_in: other,
});

/** The outcome of a stage that is played again as `again`: what it could not decide is decided there. */
export const leftTo = (again: LoadStage, outcome: StageOutcome): StageOutcome => {
  const { name } = outcome.summary;
  return {
    ...outcome,
    claims: outcome.claims.map((claim) =>
      isUndecided(claim) ? judgedIn(claim, claim.id.replace(new RegExp(`/${name}$`), `/${again.name}`)) : claim,
    ),
    notes: [...outcome.notes, `${name}: played again as ${again.name}, because the machine left it undecided`],
  };
};
