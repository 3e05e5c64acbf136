/**
 * Between a user and a run stand npm, its shell and perhaps our launcher. npm hands a SIGTERM on no further than its
 * shell, and a kill -9 reaches npm alone: the run would go on with nobody waiting for it. So where npm started this
 * process, it hears when npm or one of those between is gone. Linux only; elsewhere, and without npm, never.
 */
import { readFileSync } from "node:fs";
import { isAlive, type ProcessId, parentOf, startTimeOf } from "../supervision/processes.ts";

const EVERY_MS = 500;
/** npm, a shell and the launcher make three. */
const GENERATIONS_MAX = 5;

const commandOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").replaceAll("\0", " ");
  } catch {
    return "";
  }
};

/** From our parent up to npm itself, or empty when npm is not among them. */
const upToNpm = (npm: string): ProcessId[] => {
  const between: ProcessId[] = [];
  for (let pid = parentOf(process.pid); pid > 1 && between.length < GENERATIONS_MAX; pid = parentOf(pid)) {
    between.push({ pid, start: startTimeOf(pid) ?? "" });
    const command = commandOf(pid);
    // npm puts a title of its own, such as "npm start", in the place of its command line.
    if (/^np[mx]\b/.test(command) || command.includes(npm)) return between;
  }
  return [];
};

export const whenNpmIsGone = (onGone: () => void): void => {
  const npm = process.env.npm_execpath;
  if (npm === undefined || npm === "") return;
  const between = upToNpm(npm);
  if (between.length === 0) return;
  const timer = setInterval(() => {
    if (between.every(isAlive)) return;
    clearInterval(timer);
    onGone();
  }, EVERY_MS);
  timer.unref();
};
