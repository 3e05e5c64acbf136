/** An ordinary day for half an hour, with readers who leave early: what leaks shows. */
import type { StagePlan } from "../stages/stage-plan.ts";
import { EVERYWHERE, STREAMS } from "./judges.ts";
import { afterLoad, brokenLinkOf, steadyMix } from "./parts.ts";
import { loadStage, type Suite } from "./suite.ts";

const PARTS = 6;
const PART_S = 270;

export const soak: Suite = {
  name: "soak",
  purpose: "an ordinary day for half an hour, with readers who leave and a link that breaks",
  stages: (given): StagePlan[] => [
    ...Array.from({ length: PARTS }, (_, at): StagePlan[] => [
      // In parts, so that each is judged and let go while the next one runs.
      { ...steadyMix(PART_S), name: `steady-mix-${at + 1}` },
      loadStage({
        name: `leaving-readers-${at + 1}`,
        story: "leaving-readers",
        durationS: 20,
        objectives: true,
        judges: [...EVERYWHERE, ...STREAMS],
        reaches: ["200"],
      }),
      ...(at === PARTS / 2 ? [brokenLinkOf(given, "limiter-flapping")] : []),
    ]).flat(),
    ...afterLoad(given),
  ],
};
