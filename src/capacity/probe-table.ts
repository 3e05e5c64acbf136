/** The probes of a search as a table of 80 columns, in the order in which they were played. */
import { generatorDoubt } from "./generator-limit.ts";
import { judgeTallies, type ProbeResult } from "./probe.ts";

const COLUMNS = 80;
/** Widths of probe, rate, calls and seconds; the objectives and the verdict share the rest. */
const FIXED = [8, 8, 7, 6] as const;
const VERDICT = 9;
const OBJECTIVE_LEAST = 10;

const cut = (text: string, width: number): string => (text.length <= width ? text : `${text.slice(0, width - 1)}…`);

export const probeTable = (
  results: readonly (ProbeResult & { shown: readonly string[] })[],
  objectives: readonly { text: string; limit: number }[],
): string[] => {
  const room = COLUMNS - FIXED.reduce((sum, width) => sum + width, 0) - VERDICT;
  const shownCount = Math.max(1, Math.min(objectives.length, Math.floor(room / OBJECTIVE_LEAST)));
  const width = Math.min(20, Math.floor(room / shownCount));
  const line = (cells: readonly string[], values: readonly string[], verdict: string): string => {
    const fixed = FIXED.map((wide, at) => (at === 0 ? cells[0]?.padEnd(wide) : cells[at]?.padStart(wide)));
    const shown = values.slice(0, shownCount).map((value) => ` ${cut(value, width - 1)}`.padStart(width));
    return [...fixed, ...shown, `  ${verdict}`].join("").trimEnd();
  };
  const limits = objectives.map(({ limit }) => limit);
  const rows = results.map((result) => {
    const { plan, calls, playedS, shown, tallies } = result;
    const rate = plan.ratePerS.toFixed(plan.ratePerS < 100 ? 1 : 0);
    const verdict = generatorDoubt(result) === null ? judgeTallies(tallies, limits, plan.dispersions) : "left out";
    return line([plan.purpose, rate, String(calls), playedS.toFixed(1)], shown, verdict);
  });
  const hidden = objectives.length - shownCount;
  const texts = objectives.map(({ text }) => text);
  return [
    ...[line(["probe", "calls/s", "calls", "s"], texts, "verdict"), ...rows],
    ...(hidden > 0 ? [`${hidden} more ${hidden === 1 ? "objective" : "objectives"}: see run.json`] : []),
  ];
};
