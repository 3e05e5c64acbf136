/** Facts that several formats share: what is not judged and why, what faults met, what was spent, the calibration. */
import { countedAs, OUTCOMES } from "../contract/refusals.ts";
import * as runs from "../history/run-document.ts";
import { count, counted } from "./figures.ts";
import { bareReason } from "./verdict.ts";

/** Skipped claims by what was missing, the largest group first, and documented outcomes that are in no stage's table. */
export const notJudged = ({ claims, stages }: runs.RunDocument) => {
  // In `by_outcome` an error in a body and one in a stream are one outcome.
  const seen = new Set(stages.flatMap((stage) => Object.keys(stage.by_outcome)));
  const skipped = claims.filter(({ verdict }) => verdict === "skipped");
  const groups = [...Map.groupBy(skipped, bareReason)].map(([reason, list]) => {
    return { reason, ids: list.map(({ id }) => id) };
  });
  return {
    skipped: groups.sort((a, b) => b.ids.length - a.ids.length),
    unseen: OUTCOMES.filter((outcome) => !seen.has(countedAs(outcome))),
  };
};

/** `must`: the experiment proves nothing unless it met the state; `missed`: it did not. */
const cellOf = (reached: runs.StateReached | undefined) => {
  if (reached === undefined) return { text: "–", must: false, missed: false };
  const { must, times } = reached;
  return { text: times === null ? "not shown" : count(times), must, missed: must && times === 0 };
};

/** One row per experiment and one column per state; `null` if no stage had a fault with states to meet. */
export const statesMet = ({ stages }: Pick<runs.RunDocument, "stages">) => {
  const rows = stages.flatMap(({ name, states }) => {
    if (states === undefined) return [];
    return [
      { stage: name, cells: runs.FAULT_STATES.map((state) => cellOf(states.find((one) => one.state === state))) },
    ];
  });
  return rows.length === 0 ? null : { heads: runs.FAULT_STATES.map((state) => runs.FAULT_STATE_WORDS[state]), rows };
};

/** `200 of 2,000 requests, 3 map loads, …`; `null` for the embedded deployment and for files without the figures. */
export const spendingText = ({ spent, budget = {}, target }: runs.RunDocument): string | null => {
  if (spent === undefined || target.embedded) return null;
  const of = (most: number | undefined): string => (most === undefined ? "" : ` of ${count(most)}`);
  return (["requests", "map_loads", "analyses", "stream_seconds"] as const)
    .map((unit) => `${count(Math.ceil(spent[unit]))}${of(budget[unit])} ${unit.replace("_", " ")}`)
    .join(", ");
};

/** Says how many checks held. Each of them stands in a table of the page. */
export const calibrationText = (checks: readonly runs.Calibration[]): string => {
  const open = checks.filter(({ verdict }) => verdict !== "pass").length;
  const whole = counted(checks.length, "check");
  if (open === 0) return `Calibration: ${whole}, all hold.`;
  return `Calibration: ${open} of ${whole} did not hold; claims about time that this could change stay open.`;
};
