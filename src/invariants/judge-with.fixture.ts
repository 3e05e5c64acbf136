import type { Line } from "../history/line.ts";
import type { StageFacts } from "../history/run-document.ts";
import { type Finding, type Invariant, openJudge } from "./invariant.ts";

/** Runs one invariant over the lines of one stage. */
export const judgeWith = (invariant: Invariant, facts: StageFacts, lines: Iterable<Line>): Finding => {
  const judge = openJudge(invariant, facts);
  for (const line of lines) judge.see(line);
  return judge.end();
};
