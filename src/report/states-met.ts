/** What each fault of a run met, as a table: a row an experiment, a column a situation. */
import type { RunDocument } from "../history/run-document.ts";
import { FAULT_STATE_WORDS, FAULT_STATES, type StateReached } from "../history/states-reached.ts";
import { count } from "./figures.ts";

export type MetCell = {
  /** How often, or that this deployment does not show it. */
  text: string;
  /** The experiment proves nothing without it. */
  must: boolean;
  /** It had to be met and was not. */
  missed: boolean;
};

export type StatesMet = { heads: readonly string[]; rows: { stage: string; cells: MetCell[] }[] };

const cellOf = (reached: StateReached | undefined): MetCell => {
  if (reached === undefined) return { text: "–", must: false, missed: false };
  const { must, times } = reached;
  return { text: times === null ? "not shown" : count(times), must, missed: must && times === 0 };
};

/** `null` where no stage had a fault that has to meet anything. */
export const statesMet = ({ stages }: Pick<RunDocument, "stages">): StatesMet | null => {
  const rows = stages.flatMap(({ name, states }) => {
    if (states === undefined) return [];
    return [{ stage: name, cells: FAULT_STATES.map((state) => cellOf(states.find((one) => one.state === state))) }];
  });
  return rows.length === 0 ? null : { heads: FAULT_STATES.map((state) => FAULT_STATE_WORDS[state]), rows };
};
