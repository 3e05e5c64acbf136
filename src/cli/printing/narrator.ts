/**
 * Reports what a run does, on stderr: the folder first, a line for each step and each finished stage, and progress in
 * between: on a terminal a few lines that are redrawn in place, elsewhere a line every 30 s.
 */
import type { RunEvents } from "../../deployments/run-context.ts";
import { classOf, type Line } from "../../history/line.ts";
import type { Claim } from "../../history/run-document.ts";
import { drawAgain, isTerminal, printNote } from "./output.ts";

/** Rates are averaged over this window. */
const WINDOW_MS = 3_000;
const REFUSALS_SHOWN = 3;

const perS = (n: number): string => `${Math.round((n * 1000) / WINDOW_MS)}/s`;

/** The lines that are redrawn on a terminal: progress of a stage, calls a second, refusals by subcode, faults. */
export const createLiveView = () => {
  let [step, done, beganMs] = ["", "", 0];
  let ended: { atMs: number; outcome: string }[] = [];
  const faults = new Map<string, string>();
  return {
    begin: (text: string, nowMs: number): void => {
      [step, done, beganMs, ended] = [text, "", nowMs, []];
      faults.clear();
    },
    progress: (text: string): void => {
      done = text;
    },
    see: (line: Line, nowMs: number): void => {
      if (line.type === "call") ended.push({ atMs: nowMs, outcome: line.outcome });
      if (line.type !== "fault") return;
      if (line.phase === "injected") faults.set(line.experiment, `${line.link} ${line.fault}`);
      if (line.phase === "healed") faults.delete(line.experiment);
    },
    frame: (nowMs: number): string[] => {
      if (step === "" && done === "") return [];
      ended = ended.filter(({ atMs }) => atMs > nowMs - WINDOW_MS);
      const classes = Object.groupBy(ended, ({ outcome }) => classOf(outcome));
      const { answered = [], refused = [], indeterminate: none = [] } = classes;
      const most = [...Map.groupBy(refused, ({ outcome }) => outcome)].sort((a, b) => b[1].length - a[1].length);
      const others = most.slice(REFUSALS_SHOWN).reduce((sum, [, all]) => sum + all.length, 0);
      const shown = most.slice(0, REFUSALS_SHOWN).map(([outcome, all]) => `${outcome} ${perS(all.length)}`);
      if (others > 0) shown.push(`others ${perS(others)}`);
      const without = none.length === 0 ? "" : `, ${perS(none.length)} without an answer`;
      const rates = `${perS(ended.length)}: ${perS(answered.length)} answered, ${perS(refused.length)} refused${without}`;
      return [
        `  … ${done === "" ? step : done}, ${Math.round((nowMs - beganMs) / 1000)} s`,
        ...(ended.length === 0 ? [] : [`    ended     ${rates}`]),
        ...(shown.length === 0 ? [] : [`    refused   ${shown.join(", ")}`]),
        ...(faults.size === 0 ? [] : [`    broken    ${[...faults.values()].join(", ")}`]),
      ];
    },
  };
};

const EVERY_MS = 30_000;
const DRAWN_EVERY_MS = 500;

export const narrator = (how: { quiet: boolean; title: string; seed: number }): RunEvents & { end(): void } => {
  const { quiet, title, seed } = how;
  const onTerminal = isTerminal() && !quiet;
  const view = createLiveView();
  let now = "";
  let drawn = 0;
  const draw = (lines: readonly string[]): void => {
    if (drawn > 0 || lines.length > 0) drawAgain(drawn, lines);
    drawn = lines.length;
  };
  const always = (text: string): void => {
    draw([]);
    printNote(text);
  };
  const say = (text: string): void => (quiet ? draw([]) : always(text));
  const alive = (): void =>
    onTerminal ? draw(view.frame(performance.now())) : now === "" ? undefined : say(`  … ${now}`);
  const timer = setInterval(alive, onTerminal ? DRAWN_EVERY_MS : EVERY_MS);
  timer.unref();
  return {
    folder: (path) => printNote(`floodgate ${title}, seed ${seed}\nrun folder: ${path}`),
    warning: (text) => always(`warning: ${text}`),
    result: say,
    step: (text) => {
      now = text;
      say(text);
      view.begin(text, performance.now());
    },
    progress: (text) => {
      now = text;
      view.progress(text);
    },
    line: onTerminal ? (line) => view.see(line, performance.now()) : undefined,
    stage: ({ summary, claims }) => {
      const { pass = [], skipped = [] } = Object.groupBy(claims, ({ verdict }) => verdict);
      const isBad = ({ verdict, level }: Claim): boolean => level === "must" && /^(fail|inconclusive)$/.test(verdict);
      const named = claims.filter(isBad).map(({ id, verdict }) => `${verdict}: ${id}`);
      const also = `${skipped.length === 0 ? "" : `, ${skipped.length} skipped`}${named.length === 0 ? "" : `; ${named.join(", ")}`}`;
      const judged = `, ${pass.length} of ${claims.length} claims passed${also}`;
      say(`  ${summary.calls.sent} calls${claims.length === 0 ? "" : judged}`);
    },
    signalled: (signal, times, pending) =>
      always(
        times === 1
          ? `\n${signal}: stopping; faults are removed and children ended, then the report is written\n`
          : `${signal} again: not yet healed or ended: ${pending.join(", ") || "nothing"}; after kill -9 the watchdog does it\n`,
      ),
    end: () => {
      clearInterval(timer);
      draw([]);
    },
  };
};
