/**
 * Half an hour of mixed load and random faults, with readers who leave early: what leaks shows, and the ledger is exact at the
 * end of each part.
 */

import { AFTER_MS, RECOVERY_MS } from "../../simulation/fault-schedule.ts";
import type { LoadStage, StagePlan } from "../../stages/stage-plan.ts";
import { EVERYWHERE, loadStage, METERS, STREAMS, type SuiteFor } from "../../stages/stage-plan.ts";
import { afterLoad } from "./parts.ts";
import type { Suite } from "./suite.ts";

const PARTS = 6;
const MIX_S = 200;
const CHARGED_S = 60;
const LEAVING_S = 20;
/** Beyond what the faults take, for a host that is slow. */
const SPARE_S = 30;
const LINKS = ["limiter", "keys"] as const;

/** The links that faults can be put on; without any it is the load alone. */
const breakable = ({ target, embedded }: SuiteFor) =>
  LINKS.filter(
    (link) => embedded || (target.permits?.chaos === true && target.toxiproxy?.proxies?.[link] !== undefined),
  );

/** A load for so long, with random faults now and then where the deployment has proxies. `number`: which faults are drawn. */
const underFaults = (given: SuiteFor, plan: LoadStage, seconds: number, number: number): LoadStage => {
  const links = breakable(given);
  if (links.length === 0) return { ...plan, durationS: seconds, growth: true };
  return {
    ...plan,
    durationS: seconds + SPARE_S,
    growth: true,
    judges: [...plan.judges, "fails-closed", "recovers"],
    disturbance: {
      kind: "fault-schedule",
      events: { drawn: number, forMs: seconds * 1_000, links },
      recoveryMs: RECOVERY_MS,
      restMs: RECOVERY_MS + AFTER_MS,
    },
  };
};

export const soakMix = (given: SuiteFor, name: string, seconds: number, number: number): LoadStage =>
  underFaults(
    given,
    loadStage({ name, story: "steady-mix", judges: [...EVERYWHERE, ...STREAMS], reaches: ["200"] }),
    ...([seconds, number] as const),
  );

/** Reads and map loads: what was charged is compared call by call. */
const soakCharged = (given: SuiteFor, name: string, number: number): LoadStage =>
  underFaults(
    given,
    loadStage({ name, story: "broken-dependency", judges: [...EVERYWHERE, ...METERS], reaches: ["200"] }),
    ...([CHARGED_S, number] as const),
  );

export const soak: Suite = {
  name: "soak",
  purpose: "half an hour of mixed load and random faults: does anything grow?",
  stages: (given): StagePlan[] => [
    ...Array.from({ length: PARTS }, (_, at): StagePlan[] => [
      // In parts, so that each is judged and let go while the next one runs.
      soakMix(given, `soak-mix-${at + 1}`, MIX_S, 2 * at),
      soakCharged(given, `soak-charged-${at + 1}`, 2 * at + 1),
      loadStage({
        name: `leaving-readers-${at + 1}`,
        story: "leaving-readers",
        durationS: LEAVING_S,
        objectives: true,
        growth: true,
        judges: [...EVERYWHERE, ...STREAMS],
        reaches: ["200"],
      }),
    ]).flat(),
    ...afterLoad(given),
  ],
};
