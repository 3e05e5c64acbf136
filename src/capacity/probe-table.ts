/** The probes of a search as a table of 80 columns, in the order in which they were played. */
import { generatorDoubt } from "./generator-limit.ts";
import type { ProbeResult, ProbeVerdict } from "./probe.ts";
import { judgeTallies } from "./sequential-test.ts";

const COLUMNS = 80;
/** probe, rate, calls, seconds; what is left is shared by the objectives and the verdict. */
const FIXED = [8, 8, 7, 6] as const;
const VERDICT = 9;
const OBJECTIVE_LEAST = 10;

const cut = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`);

const rate = (perS: number): string => (perS < 100 ? perS.toFixed(1) : perS.toFixed(0));

const verdictOf = (result: ProbeResult, limits: readonly number[]): ProbeVerdict | "left out" =>
  generatorDoubt(result) !== null ? "left out" : judgeTallies(result.tallies, limits, result.plan.dispersions);

type TableObjective = { text: string; limit: number };

export const probeTable = (
  results: readonly (ProbeResult & { shown: readonly string[] })[],
  objectives: readonly TableObjective[],
): string[] => {
  const room = COLUMNS - FIXED.reduce((sum, width) => sum + width, 0) - VERDICT;
  const shownCount = Math.max(1, Math.min(objectives.length, Math.floor(room / OBJECTIVE_LEAST)));
  const width = Math.min(20, Math.floor(room / shownCount));
  const line = (cells: readonly string[], values: readonly string[], verdict: string): string =>
    [
      cells[0]?.padEnd(FIXED[0]),
      ...cells.slice(1).map((cell, at) => cell.padStart(FIXED[at + 1] as number)),
      ...values.slice(0, shownCount).map((value) => ` ${cut(value, width - 1)}`.padStart(width)),
      `  ${verdict}`,
    ]
      .join("")
      .trimEnd();
  const limits = objectives.map(({ limit }) => limit);
  const hidden = objectives.length - shownCount;
  return [
    line(
      ["probe", "calls/s", "calls", "s"],
      objectives.map(({ text }) => text),
      "verdict",
    ),
    ...results.map((result) => {
      const { plan, calls, playedS, shown } = result;
      return line(
        [plan.purpose, rate(plan.ratePerS), String(calls), playedS.toFixed(1)],
        shown,
        verdictOf(result, limits),
      );
    }),
    ...(hidden > 0 ? [`${hidden} more ${hidden === 1 ? "objective" : "objectives"}: see run.json`] : []),
  ];
};
