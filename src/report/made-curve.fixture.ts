/** The curve of a server in virtual time, for the examples of this folder: 24 slots of 400 ms, which at the top answer late. */

import { parseObjectives } from "../history/objectives.ts";
import type { Curve } from "../shedding/curve.ts";
import { levelsOf } from "../shedding/curve.ts";
import { openCurve } from "../shedding/curve-fold.ts";
import { playRamp, queueing, type Server } from "../shedding/simulated-servers.fixture.ts";
import { upAndDown } from "../workload/load-profiles.ts";

const KNEE_PER_S = 60;
const SPOILT_EVERY = 120;
/** Past the knee. */
const LATE_FROM = 10_000;

/** Sheds as `queueing` does; a few calls are late, fail, or are shed because of their organization. */
const spoilt = (): Server => {
  const server = queueing({ slots: 24, inFlight: 24, serviceMs: 400, service: "constant" });
  return (atUs, i) => {
    const { doneUs, outcome } = server(atUs, i);
    if (outcome !== "200") return { doneUs, outcome: i % 5 === 0 ? "429 org_overloaded" : outcome };
    const at = i % SPOILT_EVERY;
    return {
      doneUs: at === 7 && i > LATE_FROM ? doneUs + 9e6 : doneUs,
      outcome: at === 11 ? "503" : at === 13 ? "edge 502" : outcome,
    };
  };
};

/** As `curve.json` has it. */
export const madeCurve = (over: Partial<Curve> = {}, isSpoilt = true): Curve => {
  const profile = upAndDown(KNEE_PER_S, 240, 600);
  const server = isSpoilt ? spoilt() : queueing({ slots: 24, inFlight: 24, serviceMs: 400, service: "constant" });
  const fold = openCurve({
    stage: "shedding-curve",
    stated: parseObjectives("p99<4s"),
    planned: levelsOf(profile),
    closedForm: { slots: 24, replicas: 1 },
  });
  for (const line of playRamp(server, profile, 3)) {
    fold.see({ ...line, stage: "shedding-curve", first_event_us: line.done_us, ended: "done", events: 4 });
  }
  const curve = fold.end(5_000_000);
  if (typeof curve === "string") throw new Error(`no curve: ${curve}`);
  return { ...curve, ...over };
};
