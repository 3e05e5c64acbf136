/**
 * Reports what a run does, on stderr: the folder first, a line for each step and each finished stage, and a sign of life in between: on a
 * terminal a few lines that are drawn anew in their place, elsewhere a line every 30 s.
 */

import type { RunEvents } from "../../deployments/run-context.ts";
import { classOf, type Line } from "../../history/line.ts";
import { drawAgain, isTerminal, printNote } from "./output.ts";

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
      if (step === "" && done === "") return [];
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

const EVERY_MS = 30_000;
const DRAWN_EVERY_MS = 500;

export const narrator = (options: { quiet: boolean; title: string; seed: number }): RunEvents & { end(): void } => {
  const { quiet, title, seed } = options;
  const onTerminal = isTerminal() && !quiet;
  const view = createLiveView();
  let now = "";
  let drawn = 0;
  const draw = (lines: readonly string[]): void => {
    if (drawn > 0 || lines.length > 0) drawAgain(drawn, lines);
    drawn = lines.length;
  };
  const sayLine = (text: string): void => {
    draw([]);
    if (!quiet) printNote(text);
  };
  const timer = onTerminal
    ? setInterval(() => draw(view.frame(performance.now())), DRAWN_EVERY_MS)
    : setInterval(() => {
        if (now !== "") sayLine(`  … ${now}`);
      }, EVERY_MS);
  timer.unref();
  return {
    folder: (path) => printNote(`floodgate ${title}, seed ${seed}\nrun folder: ${path}`),
    warning: (text) => {
      draw([]);
      printNote(`warning: ${text}`);
    },
    result: sayLine,
    step: (text) => {
      now = text;
      sayLine(text);
      view.begin(text, performance.now());
    },
    progress: (text) => {
      now = text;
      view.progress(text);
    },
    ...(onTerminal ? { line: (line) => view.see(line, performance.now()) } : {}),
    stage: ({ summary, claims }) => {
      const bad = claims.filter(
        ({ verdict, level }) => level === "must" && (verdict === "fail" || verdict === "inconclusive"),
      );
      const passed = claims.filter(({ verdict }) => verdict === "pass").length;
      const skipped = claims.filter(({ verdict }) => verdict === "skipped").length;
      const without = skipped === 0 ? "" : `, ${skipped} skipped`;
      const named = bad.length === 0 ? "" : `; ${bad.map(({ id, verdict }) => `${verdict}: ${id}`).join(", ")}`;
      const judged = claims.length === 0 ? "" : `, ${passed} of ${claims.length} claims passed${without}${named}`;
      sayLine(`  ${summary.calls.sent} calls${judged}`);
    },
    signalled: (signal, times, pending) => {
      draw([]);
      printNote(
        times === 1
          ? `\n${signal}: stopping; faults are removed and children ended, then the report is written\n`
          : `${signal} again: not yet healed or ended: ${pending.join(", ") || "nothing"}; after kill -9 the watchdog does it\n`,
      );
    },
    end: () => {
      clearInterval(timer);
      draw([]);
    },
  };
};
