/**
 * Builds the curve or the step of a recorded stage from its facts and lines alone, so that judging a run again gives
 * the same.
 */
import { SHED_OUTCOMES } from "../contract/refusals.ts";
import type { Line } from "../history/line.ts";
import { type Objective, parseObjectives } from "../history/objectives.ts";
import { BROKEN } from "../history/reason-codes.ts";
import {
  type Claim,
  claimOf,
  doubt,
  type Measurement,
  type StageFacts,
  type StepFacts,
} from "../history/run-document.ts";
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

/** The fewest calls of an outage, and the largest share of them that is served. At ten times the knee a tenth is served. */
const OUTAGE_CALLS = 200;
const OUTAGE_SHARE = 0.01;

/** Accuses a deployment that sheds every call of the curve, at the lowest rate too, and served the ramp before it. */
const openOutage = ({ stage, exclusive, curve: { ramp = [] } = { not_played: [] } }: StageFacts) => {
  let [calls, shed] = [0, 0];
  const see = (line: Line): void => {
    if (line.type !== "call" || line.stage !== stage || line.attempt > 0) return;
    calls += 1;
    if (SHED_OUTCOMES.has(line.outcome)) shed += 1;
  };
  const claims = (replay: string): Claim[] => {
    const served = ramp.at(-1);
    if (!exclusive || served === undefined || calls < OUTAGE_CALLS || shed < (1 - OUTAGE_SHARE) * calls) return [];
    const got = `${shed} of ${calls} calls were shed, and the ramp before the curve was served at ${served.rate_per_s.toFixed(1)}/s`;
    const reason = `the state before the first overload has not come back: ${got}`;
    const expected = "a deployment that serves again after its first overload";
    return [claimOf({ id: "curve/metastability", stage, ...BROKEN, reason, got, expected, replay })];
  };
  return { see, claims };
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
  const outage = openOutage(facts);
  return {
    see: (line) => {
      fold.see(line);
      outage.see(line);
    },
    end: (replay) => {
      const curve = fold.end(offered.start_us);
      if (typeof curve !== "string") return { curve, ...judgeCurve(curve, facts, replay) };
      const lacking = `the curve needs ${curve}`;
      const claim = doubt("curve/goodput_retention", "not-reached", lacking, "levels that can be compared", replay);
      return { curve: null, claims: [{ ...claim, stage }, ...outage.claims(replay)], measurements: [] };
    },
  };
};
