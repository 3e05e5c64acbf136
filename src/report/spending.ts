/** What a run used up of somebody's deployment, beside what its target file allows. */
import type { RunDocument } from "../history/run-document.ts";
import { count } from "./figures.ts";

const WORDS = {
  requests: "requests",
  map_loads: "map loads",
  analyses: "analyses",
  stream_seconds: "stream seconds",
} as const;

/** `200 of 2,000 requests, 3 map loads, …`; `null` for the embedded deployment and for files that do not have it. */
export const spendingText = ({ spent, budget = {}, target }: RunDocument): string | null => {
  if (spent === undefined || target.embedded) return null;
  return (Object.keys(WORDS) as (keyof typeof WORDS)[])
    .map((unit) => {
      const most = budget[unit];
      return `${count(Math.ceil(spent[unit]))}${most === undefined ? "" : ` of ${count(most)}`} ${WORDS[unit]}`;
    })
    .join(", ");
};
