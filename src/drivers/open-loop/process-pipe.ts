/**
 * The messages between the runner and the open-loop driver's process, one JSON value a line, and the process's side of the pipe.
 * Everything reaches the process over its stdin, credentials too.
 */
import { wallUs } from "../../client/clock.ts";
import type { CallLine, FoldLine } from "../../history/line.ts";
import type { Protocol } from "../../history/run-document.ts";
import type { HostFacts } from "../../history/stage-host.ts";
import { messageIn, readLines } from "../../supervision/lines.ts";
import type { Secrets } from "../../target/secrets.ts";
import type { Budget, Spent, Stopped } from "../../workload/budget.ts";
import type { DriveJob, Problem } from "../driver.ts";

export type OpenLoopJob = DriveJob & {
  /** This generator's part of the schedule: every `of`-th arrival, beginning with `index`. */
  segment?: { index: number; of: number };
  /** Admitted calls are folded where they were made. */
  fold?: true;
  budget?: Budget;
  /** What the target file states, where `budget` is a share or a rest of it. */
  stated?: Budget;
};

export type ToProcess =
  | { type: "job"; job: OpenLoopJob }
  | { type: "pong"; n: number; atUs: number }
  /** Without a value: why it could not be read. */
  | { type: "secret"; n: number; value?: string; message?: string }
  /** Begin; `startUs` is the run time of arrival 0. */
  | { type: "go"; startUs?: number }
  | { type: "stop" };

export type OpenLoopEnd = {
  /** Arrivals of the schedule that came due. */
  offered: number;
  started: number;
  /** Not sent because `maxOutstanding` was reached. */
  dropped: number;
  /** Sent while as many calls were under way as there are connections, so they may have waited here. */
  queued: number;
  /** Could not be made, e.g. because no session could be minted. */
  unmade: number;
  /** Not sent because the budget was spent or its stop condition met. */
  unsent: number;
  cut: number;
  startUs: number;
  endUs: number;
  protocols?: Protocol[];
  /** How late calls left, against the schedule: at the moment of sending, not of connecting. */
  lagMs: { p50: number; p99: number; max: number };
};

/** What it spent so far, by its own count, and why it sent nothing any more before its schedule ended. */
export type OpenLoopSpent = { spent: Spent; stopped: Stopped | null };

export type FromProcess =
  | CallLine
  | FoldLine
  | { type: "ping"; n: number }
  | { type: "secret?"; n: number; ref: string; what: string }
  | { type: "forget"; ref: string }
  | { type: "ready"; clockErrorUs: number }
  | ({ type: "progress"; offered: number; done: number } & OpenLoopSpent)
  | ({ type: "end"; end: OpenLoopEnd; host: HostFacts; problems: Problem[] } & OpenLoopSpent)
  | { type: "failed"; message: string };

const FLUSH_EVERY_MS = 50;
const FLUSH_AT_CHARS = 1 << 16;
const PINGS = 9;

export type ProcessPipe = {
  /** Lines are gathered for up to 50 ms, unless `now`. */
  tell(message: FromProcess, now?: boolean): void;
  /** The next message of a kind; `n` is the number it answers. */
  once<T extends ToProcess["type"]>(type: T, n?: number): Promise<Extract<ToProcess, { type: T }>>;
  /** Values come from the runner, which alone reads the references of the target file. */
  secrets: Secrets;
  measureClock(): Promise<{ offsetUs: number; errorUs: number }>;
  end(code: number): void;
};

export const openProcessPipe = (): ProcessPipe => {
  let pending = "";
  const flush = (): void => {
    if (pending === "") return;
    process.stdout.write(pending);
    pending = "";
  };
  setInterval(flush, FLUSH_EVERY_MS).unref();
  const tell: ProcessPipe["tell"] = (message, now = false) => {
    pending += `${JSON.stringify(message)}\n`;
    if (now || pending.length > FLUSH_AT_CHARS) flush();
  };

  const waiting = new Map<string, (message: ToProcess) => void>();
  const once: ProcessPipe["once"] = (type, n = 0) =>
    new Promise((resolve) => {
      waiting.set(`${type} ${n}`, resolve as (message: ToProcess) => void);
    });
  const hear = (line: string): void => {
    const message = messageIn(line) as ToProcess | null;
    if (message === null) return;
    const key = `${message.type} ${"n" in message ? message.n : 0}`;
    waiting.get(key)?.(message);
    waiting.delete(key);
  };
  // The runner is gone, so nobody wants the load.
  readLines(process.stdin, hear, () => process.exit(0));

  let asked = 0;
  const secrets: Secrets = {
    read: async (ref, what) => {
      const n = asked++;
      const answered = once("secret", n);
      tell({ type: "secret?", n, ref, what }, true);
      const { value, message } = await answered;
      if (value === undefined) throw new Error(message);
      return value;
    },
    forget: (ref) => tell({ type: "forget", ref }, true),
  };

  return {
    tell,
    once,
    secrets,
    // The quickest of a few round trips gives the offset; half of that trip bounds its error.
    measureClock: async () => {
      let best = { offsetUs: 0, errorUs: Number.POSITIVE_INFINITY };
      for (let n = 0; n < PINGS; n++) {
        const answered = once("pong", n);
        const sentUs = wallUs();
        tell({ type: "ping", n }, true);
        const { atUs } = await answered;
        const gotUs = wallUs();
        const errorUs = Math.ceil((gotUs - sentUs) / 2);
        if (errorUs < best.errorUs) best = { offsetUs: Math.round(atUs - (sentUs + gotUs) / 2), errorUs };
      }
      return best;
    },
    end: (code) => {
      flush();
      process.stdout.write("", () => process.exit(code));
    },
  };
};
