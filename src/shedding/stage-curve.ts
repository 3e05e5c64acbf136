/**
 * Builds the curve or the step of a recorded stage from its facts and lines alone, so that judging a run again gives
 * the same.
 */
import type { Line } from "../history/line.ts";
import { type Objective, parseObjectives } from "../history/objectives.ts";
import { type Claim, doubt, type Measurement } from "../history/run-document.ts";
import type { StageFacts, StepFacts } from "../history/stage-facts.ts";
import { type Curve, levelsOf } from "./curve.ts";
import { judgeCurve } from "./curve-claims.ts";
import { openCurve } from "./curve-fold.ts";
import { openSettling, spansOf } from "./settling.ts";
import { settlingClaims, settlingMeasures } from "./settling-claims.ts";

type StageCurve = {
  /** Takes the lines of the run in time order. */
  see(line: Line): void;
  end(replay: string): { curve: Curve | null; claims: Claim[]; measurements: Measurement[] };
};

const stated = (objectives: string | undefined): Objective[] =>
  objectives === undefined ? [] : parseObjectives(objectives);

const openStageStep = (facts: StageFacts, { of, objectives }: StepFacts): StageCurve => {
  const { stage, offered } = facts;
  const spans = of === "capacity" || offered === undefined ? undefined : spansOf(offered, offered.start_us);
  const fold = openSettling(stage, spans, stated(objectives));
  return {
    see: fold.see,
    end: (replay) => {
      const settling = fold.end();
      const claims = settlingClaims(settling, of, facts, replay);
      return { curve: null, claims, measurements: typeof settling === "string" ? [] : settlingMeasures(settling) };
    },
  };
};

/** Returns `null` if the stage played neither a curve nor a step. */
export const openStageCurve = (facts: StageFacts): StageCurve | null => {
  const { stage, offered, curve: about, step, shedding, limits } = facts;
  if (step !== undefined) return openStageStep(facts, step);
  if (offered === undefined || about === undefined) return null;
  const { slots = null, not_played: notPlayed, objectives } = about;
  const { replicas } = limits;
  const closedForm = shedding === "fixed" && slots !== null ? { slots, replicas: replicas ?? 1 } : null;
  const planned = levelsOf(offered);
  const fold = openCurve({ stage, planned, stated: stated(objectives), closedForm, replicas, notPlayed });
  return {
    see: fold.see,
    end: (replay) => {
      const curve = fold.end(offered.start_us);
      if (typeof curve !== "string") return { curve, ...judgeCurve(curve, facts, replay) };
      const lacking = `the curve needs ${curve}`;
      const claim = doubt("curve/goodput_retention", lacking, "levels that can be compared", replay);
      return { curve: null, claims: [{ ...claim, stage }], measurements: [] };
    },
  };
};
