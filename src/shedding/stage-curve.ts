/** The curve of a recorded stage: opened by its facts alone, so that a run that is judged again has the same one. */
import { doubt } from "../history/claim.ts";
import type { Line } from "../history/line.ts";
import { parseObjectives } from "../history/objectives.ts";
import type { Claim, Measurement } from "../history/run-document.ts";
import type { OfferedPiece, StageFacts } from "../history/stage-facts.ts";
import { type Curve, levelsOf } from "./curve.ts";
import { judgeCurve } from "./curve-claims.ts";
import { openCurve } from "./curve-fold.ts";

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

/** `null` where the stage played no curve. */
export const openStageCurve = (facts: StageFacts): StageCurve | null => {
  const { stage, offered, curve: about, shedding, limits } = facts;
  if (offered === undefined || about === undefined) return null;
  const startUs = (offered[0] as OfferedPiece).from_us;
  const pieces = offered.map(({ from_us, to_us, from_per_s: from, to_per_s: to }) => {
    return { from, to, durationS: (to_us - from_us) / 1e6 };
  });
  const { slots = null, not_played: notPlayed, objectives } = about;
  const isFixed = shedding === "fixed" && slots !== null;
  const fold = openCurve({
    stage,
    planned: levelsOf({ pieces }),
    stated: objectives === undefined ? [] : parseObjectives(objectives),
    closedForm: isFixed ? { slots, replicas: limits.replicas ?? 1 } : null,
    notPlayed,
  });
  return {
    see: fold.see,
    end: (replay) => {
      const curve = fold.end(startUs);
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
