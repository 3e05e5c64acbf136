/** The curve of a recorded stage, or its step: opened by its facts alone, so that a run that is judged again has the same one. */
import { doubt } from "../history/claim.ts";
import type { Line } from "../history/line.ts";
import { type Objective, parseObjectives } from "../history/objectives.ts";
import type { Claim, Measurement } from "../history/run-document.ts";
import type { OfferedPiece, StageFacts, StepFacts } from "../history/stage-facts.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { type Curve, levelsOf } from "./curve.ts";
import { judgeCurve } from "./curve-claims.ts";
import { openCurve } from "./curve-fold.ts";
import { SettlingFold, spansOf } from "./settling.ts";
import { settlingClaims, settlingMeasures, settlingSkipped } from "./settling-claims.ts";

export type CurveJudged = {
  readonly curve: Curve | null;
  readonly claims: Claim[];
  readonly measurements: Measurement[];
};

export type StageCurve = {
  /** Any line, in any order. */
  see(line: Line): void;
  end(replay: string): CurveJudged;
};

const profileOf = (offered: readonly OfferedPiece[]): Profile => {
  const pieces = offered.map(({ from_us, to_us, from_per_s: from, to_per_s: to }) => {
    return { from, to, durationS: (to_us - from_us) / 1e6 };
  });
  return { name: "offered", pieces };
};

const startOf = (offered: readonly OfferedPiece[]): number => (offered[0] as OfferedPiece).from_us;

const stated = (objectives: string | undefined): Objective[] =>
  objectives === undefined ? [] : parseObjectives(objectives);

/** A stage with a step: its lines have to come in time order. */
const openStageStep = (facts: StageFacts, { of, objectives }: StepFacts): StageCurve => {
  const { stage, offered = [] } = facts;
  const spans = of === "capacity" || offered.length === 0 ? undefined : spansOf(profileOf(offered), startOf(offered));
  const fold = new SettlingFold({ stage, spans, stated: stated(objectives) });
  return {
    see: (line) => fold.see(line),
    end: (replay) => {
      const settling = fold.end();
      if (settling === null) {
        return { curve: null, claims: settlingSkipped(fold.lacking ?? "", of, facts, replay), measurements: [] };
      }
      return {
        curve: null,
        claims: settlingClaims(settling, of, facts, replay),
        measurements: settlingMeasures(settling),
      };
    },
  };
};

/** `null` where the stage played neither a curve nor a step. */
export const openStageCurve = (facts: StageFacts): StageCurve | null => {
  const { stage, offered, curve: about, step, shedding, limits } = facts;
  if (step !== undefined) return openStageStep(facts, step);
  if (offered === undefined || about === undefined) return null;
  const { slots = null, not_played: notPlayed, objectives } = about;
  const isFixed = shedding === "fixed" && slots !== null;
  const fold = openCurve({
    stage,
    planned: levelsOf(profileOf(offered)),
    stated: stated(objectives),
    closedForm: isFixed ? { slots, replicas: limits.replicas ?? 1 } : null,
    replicas: limits.replicas,
    notPlayed,
  });
  return {
    see: fold.see,
    end: (replay) => {
      const curve = fold.end(startOf(offered));
      if (curve !== null) return { curve, ...judgeCurve(curve, facts, replay) };
      const claim = doubt(
        "curve/goodput_retention",
        `there is no curve: ${fold.lacks()}`,
        "levels that can be compared",
        replay,
      );
      return { curve, claims: [{ ...claim, stage }], measurements: [] };
    },
  };
};
