/** What a child says, line by line and masked: handed on, appended to files, and waited for. */
import type { ChildProcess } from "node:child_process";
import { createWriteStream } from "node:fs";
import type { Redactor } from "./redaction.ts";

type Output = "stdout" | "stderr";
export type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type OutputSpec = {
  name: string;
  /** Files that the masked lines are appended to. */
  files?: Partial<Record<Output, string>>;
  onLine?: (line: string, from: Output) => void;
};

export type CapturedOutput = {
  /** The last few of both streams, for messages. */
  lastLines: () => string[];
  /** Also finds a line that was said before. Rejects with a sentence at the deadline and when the child has ended. */
  waitForLine: (match: RegExp, options: { deadlineMs: number; from?: Output }) => Promise<string>;
};

/** Lines kept for `waitForLine`, of each stream. */
const LINES_KEPT = 200;

type Waiter = { match: RegExp; from: Output; found: (line: string) => void };

export const captureOutput = (
  child: ChildProcess,
  { name, files = {}, onLine }: OutputSpec,
  redactor: Redactor,
  exited: Promise<Exit>,
): CapturedOutput => {
  const kept: { line: string; from: Output }[] = [];
  const waiters = new Set<Waiter>();
  for (const from of ["stdout", "stderr"] as const) {
    const path = files[from];
    const sink = path === undefined ? null : createWriteStream(path, { flags: "a", mode: 0o600 });
    // A full disk must not end the run in the middle of a fault; the line is still kept and handed on.
    sink?.on("error", () => {});
    const lines = redactor.lines((line) => {
      sink?.write(`${line}\n`);
      if (kept.push({ line, from }) > LINES_KEPT * 2) kept.shift();
      for (const waiter of waiters) if (waiter.from === from && waiter.match.test(line)) waiter.found(line);
      onLine?.(line, from);
    });
    const stream = child[from];
    stream?.on("data", lines.push);
    stream?.on("close", () => {
      lines.end();
      sink?.end();
    });
  }
  const lastLines = (): string[] => kept.slice(-5).map(({ line }) => line);

  return {
    lastLines,
    waitForLine: (match, { deadlineMs, from = "stdout" }) =>
      new Promise((resolve, reject) => {
        const seen = kept.find((one) => one.from === from && match.test(one.line));
        if (seen !== undefined) return resolve(seen.line);
        const finish = (act: () => void): void => {
          clearTimeout(timer);
          waiters.delete(waiter);
          act();
        };
        const fail = (what: string): void => {
          const said = kept.length === 0 ? "it said nothing" : `its last lines: ${lastLines().join(" | ")}`;
          finish(() => reject(new Error(`${name} ${what}; ${said}`)));
        };
        const waiter: Waiter = { match, from, found: (line) => finish(() => resolve(line)) };
        const timer = setTimeout(() => fail(`did not say ${match} within ${deadlineMs} ms`), deadlineMs);
        waiters.add(waiter);
        void exited.then(({ code, signal }) => {
          if (waiters.has(waiter)) fail(`ended (${signal ?? code}) before it said ${match}`);
        });
      }),
  };
};
