/**
 * Reports what a run does, on stderr: the folder first, a line for each step and each finished stage, and a sign of
 * life in between: on a terminal a line that is written over, elsewhere a line every 30 s.
 */
import type { RunEvents } from "../../run/run-context.ts";

const EVERY_MS = 30_000;
const WIDTH = 80;

export const narrator = (options: { quiet: boolean; title: string; seed: number }): RunEvents & { end(): void } => {
  const { quiet, title, seed } = options;
  const isTerminal = process.stderr.isTTY === true && process.env.NO_COLOR === undefined && !quiet;
  let now = "";
  let overwritten = false;
  const wipe = (): void => {
    if (overwritten) process.stderr.write(`\r${" ".repeat(WIDTH - 1)}\r`);
    overwritten = false;
  };
  const say = (text: string): void => {
    wipe();
    if (!quiet) process.stderr.write(`${text}\n`);
  };
  const timer = setInterval(() => {
    if (now !== "" && !isTerminal) say(`  … ${now}`);
  }, EVERY_MS);
  timer.unref();
  return {
    folder: (path) => process.stderr.write(`floodgate ${title}, seed ${seed}\nrun folder: ${path}\n`),
    warning: (text) => process.stderr.write(`warning: ${text}\n`),
    result: say,
    step: (text) => {
      now = text;
      say(text);
    },
    progress: (text) => {
      now = text;
      if (!isTerminal) return;
      wipe();
      process.stderr.write(`  … ${text}`.slice(0, WIDTH - 1));
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
      say(`  ${summary.calls.sent} calls${judged}`);
    },
    signalled: (signal, times, pending) => {
      wipe();
      process.stderr.write(
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
