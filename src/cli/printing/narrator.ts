/**
 * Reports what a run does, on stderr: the folder first, a line for each step and each finished stage, and a sign of
 * life in between: on a terminal a line that is written over, elsewhere a line every 30 s.
 */

import type { RunEvents } from "../../run/run-context.ts";
import { isTerminal, printForNow, printNote, wipeLine } from "./output.ts";

const EVERY_MS = 30_000;
const WIDTH = 80;

export const narrator = (options: { quiet: boolean; title: string; seed: number }): RunEvents & { end(): void } => {
  const { quiet, title, seed } = options;
  const onTerminal = isTerminal() && !quiet;
  let now = "";
  let overwritten = false;
  const wipe = (): void => {
    if (overwritten) wipeLine(WIDTH - 1);
    overwritten = false;
  };
  const sayLine = (text: string): void => {
    wipe();
    if (!quiet) printNote(text);
  };
  const timer = setInterval(() => {
    if (now !== "" && !onTerminal) sayLine(`  … ${now}`);
  }, EVERY_MS);
  timer.unref();
  return {
    folder: (path) => printNote(`floodgate ${title}, seed ${seed}\nrun folder: ${path}`),
    warning: (text) => printNote(`warning: ${text}`),
    result: sayLine,
    step: (text) => {
      now = text;
      sayLine(text);
    },
    progress: (text) => {
      now = text;
      if (!onTerminal) return;
      wipe();
      printForNow(`  … ${text}`.slice(0, WIDTH - 1));
      overwritten = true;
    },
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
      wipe();
      printNote(
        times === 1
          ? `\n${signal}: stopping; faults are removed and children ended, then the report is written\n`
          : `${signal} again: not yet healed or ended: ${pending.join(", ") || "nothing"}; after kill -9 the watchdog does it\n`,
      );
    },
    end: () => {
      clearInterval(timer);
      wipe();
    },
  };
};
