/** What a terminal shows while a stage is played, one line each: how far it is, calls a second, refusals by subcode, faults. */
import { classOf, type Line } from "../../history/line.ts";

/** Rates are read over this long. */
const WINDOW_MS = 3_000;
const REFUSALS_SHOWN = 3;

type Ended = { atMs: number; outcome: string };

const perS = (n: number): string => `${Math.round((n * 1000) / WINDOW_MS)}/s`;

export type LiveView = {
  /** A stage or another step begins. */
  begin(step: string, nowMs: number): void;
  /** How far it is, in words. */
  progress(text: string): void;
  see(line: Line, nowMs: number): void;
  /** The lines to be shown now; none between stages. */
  frame(nowMs: number): string[];
};

export const createLiveView = (): LiveView => {
  let step = "";
  let done = "";
  let beganMs = 0;
  let ended: Ended[] = [];
  const faults = new Map<string, string>();
  const ratesOf = (nowMs: number): { answered: number; refused: Map<string, number>; none: number } => {
    ended = ended.filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
    const refused = new Map<string, number>();
    let [answered, none] = [0, 0];
    for (const { outcome } of ended) {
      const kind = classOf(outcome);
      if (kind === "answered") answered += 1;
      else if (kind === "indeterminate") none += 1;
      else refused.set(outcome, (refused.get(outcome) ?? 0) + 1);
    }
    return { answered, refused, none };
  };
  return {
    begin: (text, nowMs) => {
      [step, done, beganMs, ended] = [text, "", nowMs, []];
      faults.clear();
    },
    progress: (text) => {
      done = text;
    },
    see: (line, nowMs) => {
      if (line.type === "call") ended.push({ atMs: nowMs, outcome: line.outcome });
      if (line.type !== "fault") return;
      if (line.phase === "injected") faults.set(line.experiment, `${line.link} ${line.fault}`);
      if (line.phase === "healed") faults.delete(line.experiment);
    },
    frame: (nowMs) => {
      if (step === "") return [];
      const { answered, refused, none } = ratesOf(nowMs);
      const all = [...refused].sort((a, b) => b[1] - a[1]);
      const shown = all.slice(0, REFUSALS_SHOWN).map(([outcome, n]) => `${outcome} ${perS(n)}`);
      const rest = all.slice(REFUSALS_SHOWN).reduce((sum, [, n]) => sum + n, 0);
      const seconds = Math.round((nowMs - beganMs) / 1000);
      return [
        `  … ${done === "" ? step : done}, ${seconds} s`,
        ...(ended.length === 0
          ? []
          : [
              `    ended     ${perS(ended.length)}: ${perS(answered)} answered, ${perS(ended.length - answered - none)} refused${none === 0 ? "" : `, ${perS(none)} without an answer`}`,
            ]),
        ...(shown.length === 0
          ? []
          : [`    refused   ${[...shown, ...(rest === 0 ? [] : [`others ${perS(rest)}`])].join(", ")}`]),
        ...(faults.size === 0 ? [] : [`    broken    ${[...faults.values()].join(", ")}`]),
      ];
    },
  };
};
