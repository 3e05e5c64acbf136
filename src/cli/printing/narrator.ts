/**
 * Reports what a run does, on stderr: the folder first, a line for each step and each finished stage, and a sign of life in between: on a
 * terminal a few lines that are drawn anew in their place, elsewhere a line every 30 s.
 */

import type { RunEvents } from "../../deployments/run-context.ts";
import { createLiveView } from "./live-view.ts";
import { drawAgain, isTerminal, printNote } from "./output.ts";

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
