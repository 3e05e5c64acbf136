/**
 * Owns every side effect of a run. At the end it runs the undos (newest first), ends the children, then the children
 * that others need, and leaves what could not be undone to the watchdog.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type ChildSpec, startChild } from "./child.ts";
import { type Effect, type Journal, RUN_ITSELF } from "./journal.ts";
import { birthOf, endGroup, type GroupId, isGroupAlive, RUN_MARK, signalGroup, signalProcess } from "./processes.ts";
import { inTime, pause } from "./waiting.ts";
import { startWatchdog } from "./watchdog.ts";

const GRACE_MS = 5_000;
const STOP_MS = 10_000;
/** Long enough for all steps of faults/healing.ts with their default deadlines. */
const UNDO_MS = 40_000;

/** A file of this name that contains the run's mark shows that its folder belongs to the run. */
export const FOLDER_MARK = ".floodgate-run";

type Undoing = { name: string; undo: () => Promise<unknown>; deadlineMs: number };

const tryUndo = async ({ name, undo, deadlineMs }: Undoing): Promise<string[]> => {
  const tried = (async () => await undo())().then(
    () => [],
    (error: unknown) => [`${name}: ${(error as Error).message}`],
  );
  const troubles = await inTime(tried, deadlineMs);
  return troubles === "late" ? [`${name}: not done within ${deadlineMs} ms`] : troubles;
};

/**
 * `watchdog`: the entry file of its process (`WATCHDOG_PROCESS` in faults/); null only in tests. `stopMs`: how long the
 * body may take to end after a stop.
 */
type SupervisorOptions = { journal: Journal; watchdog: string | null; stopMs?: number };

export type Supervisor = Awaited<ReturnType<typeof openSupervisor>>;
export type Child = Awaited<ReturnType<Supervisor["start"]>>;

export const openSupervisor = async ({ journal, watchdog: entry, stopMs = STOP_MS }: SupervisorOptions) => {
  const mark = randomBytes(8).toString("hex");
  const watchdog = entry === null ? null : await startWatchdog(entry, journal.path, mark);
  const run = { pid: process.pid, start: birthOf(process.pid), mark };
  /** While this entry is open and the run's process lives, nobody else may heal. */
  const self = journal.about({ kind: "child", name: RUN_ITSELF, run });
  if (watchdog !== null) journal.keptBy(watchdog);
  // Marks processes that others start for the run (a driver's, a compiler) as belonging to it.
  process.env[RUN_MARK] = mark;

  const stopping = new AbortController();
  const undos = new Set<Undoing>();
  const children = new Set<{ name: string; endLast: boolean; stop(): Promise<unknown> }>();
  const starting = new Set<Promise<unknown>>();
  let closing: Promise<string[]> | undefined;

  const startNow = async (spec: ChildSpec) => {
    const { name, endLast = false, graceMs = GRACE_MS } = spec;
    const id = journal.about({ kind: "child", name, detail: spec.command });
    const spawned = (group: GroupId) => journal.done(id, { undo: { how: "end-process", ...group, end_last: endLast } });
    const { group, ...started } = await startChild(spec, { [RUN_MARK]: mark }, spawned).catch((error: unknown) => {
      journal.undone(id, "not started");
      throw error;
    });
    const { pid } = group;
    /** The journal's entry of a SIGSTOP in force, which SIGCONT or the end of the child closes. */
    let stopped: string | null = null;
    const runsAgain = (detail: string): void => {
      if (stopped !== null) journal.undone(stopped, detail);
      stopped = null;
    };
    const forget = (detail: string): void => {
      journal.undone(id, detail);
      children.delete(child);
      runsAgain(detail);
    };
    const child = {
      ...{ ...started, name, pid, endLast },
      /** Sends a signal to this process only, and journals it. */
      signal: (signal: NodeJS.Signals): void => {
        // SIGCONT heals, so it waits for no journal or watchdog. Other signals are journalled before they are sent.
        const sent = signal === "SIGCONT" ? null : journal.about({ kind: "signal", name, detail: signal });
        const over = (detail: string): void => void (sent !== null && journal.undone(sent, detail));
        if (!signalProcess(group, signal)) {
          over("not sent");
          throw new Error(`${name} (process ${pid}) is gone and cannot take ${signal}`);
        }
        if (signal === "SIGCONT") runsAgain(signal);
        else if (signal === "SIGSTOP" && stopped === null) stopped = sent;
        else over("nothing to take back");
      },
      /** Ends the group: SIGTERM, then SIGKILL after the grace. An ended child may have left children running. */
      stop: async () => {
        const ended = await endGroup(group, graceMs);
        await started.exited;
        forget(ended);
        return ended;
      },
    };
    children.add(child);
    void started.exited.then(({ code, signal }) => {
      // A child whose own children still run stays registered.
      if (!isGroupAlive(group)) forget(`exited ${signal ?? code}`);
    });
    return child;
  };

  /** Registers an undo for the end of the run, whatever happens, newest first. The returned function removes it. */
  const registerUndo = (name: string, undo: () => Promise<unknown>, deadlineMs: number = UNDO_MS): (() => void) => {
    const undoing = { name, undo, deadlineMs };
    undos.add(undoing);
    return () => void undos.delete(undoing);
  };

  /**
   * Journals a side effect before it is done. Throws if that fails; then the effect must not be done. `takeBack` undoes
   * the effect, at the latest at the end of the run, and returns what it did; `name` names it in messages.
   */
  const begin = (effect: Omit<Effect, "id">, name: string, takeBack: () => Promise<string>) => {
    const id = journal.about(effect);
    const undo = async (): Promise<void> => journal.undone(id, await takeBack());
    const forget = registerUndo(name, undo);
    return {
      done: (): void => journal.done(id),
      /** Undoes the effect. If that throws, the effect stays open: the end of the run and the watchdog try again. */
      takeBack: (): Promise<void> => undo().then(forget),
      over: (): void => {
        forget();
        journal.undone(id, "over by itself");
      },
    };
  };

  const closeNow = async (): Promise<string[]> => {
    stopping.abort();
    const troubles: string[] = [];
    // A child that is being started must be registered before the others are ended.
    await Promise.allSettled(starting);
    for (let next = [...undos].at(-1); next !== undefined; next = [...undos].at(-1)) {
      troubles.push(...(await tryUndo(next)));
      // Deleted only now, because the undo counts as pending while it runs.
      undos.delete(next);
    }
    if (watchdog?.isThere() === false) troubles.push("the watchdog had ended before the run did");
    for (const last of [false, true]) {
      const now = [...children].filter(({ endLast }) => endLast === last);
      const ending = now.map(({ name, stop }) => tryUndo({ name, undo: stop, deadlineMs: UNDO_MS }));
      troubles.push(...(await Promise.all(ending)).flat());
    }
    journal.undone(self);
    if (process.env[RUN_MARK] === mark) delete process.env[RUN_MARK];
    // What could not be undone is still open in the journal; the watchdog tries again with its own deadlines.
    await (troubles.length === 0 ? watchdog?.bye() : watchdog?.takeOver());
    return troubles;
  };
  /** Undoes everything. Never rejects: returns a sentence for each failure. A second call waits for the first. */
  const close = (): Promise<string[]> => {
    closing ??= closeNow();
    return closing;
  };

  return {
    /** Fires when the body is to stop, and when `close` begins. */
    signal: stopping.signal,
    pending: (): string[] => [...[...undos].toReversed(), ...children].map(({ name }) => name),
    start: async (spec: ChildSpec) => {
      if (closing !== undefined) throw new Error(`${spec.name} is not started: the run is ending`);
      const started = startNow(spec);
      starting.add(started);
      return started.finally(() => starting.delete(started));
    },
    ...{ registerUndo, begin, close },
    /**
     * Registers a process that other code started as leader of its own group: it is ended with the run, also by the
     * watchdog. Call it in the turn of the event loop that started the process. The returned function removes it.
     */
    adopt: (name: string, pid: number): (() => void) => {
      const group: GroupId = { pid, pgid: pid, start: birthOf(pid) };
      const undo = { how: "end-process", ...group, end_last: false } as const;
      try {
        return begin({ kind: "child", name, undo }, `end ${name}`, () => endGroup(group, 0)).over;
      } catch (error) {
        // A process that cannot be journalled must not run.
        signalGroup(group, "SIGKILL");
        throw error;
      }
    },
    /** Registers a folder for secrets, removed with the run, also by the watchdog. Returns the cancel function. */
    ownFolder: (name: string, path: string): (() => void) => {
      writeFileSync(join(path, FOLDER_MARK), mark, { mode: 0o600, flag: "wx" });
      const effect = { kind: "folder", name, undo: { how: "remove-folder", path } } as const;
      const remove = () => rm(path, { recursive: true, force: true, maxRetries: 3 }).then(() => "removed");
      return begin(effect, `remove ${name}`, remove).over;
    },
    /** Runs the body, then undoes everything. A body that does not end within `stopMs` after `stop` is abandoned. */
    within: async <T>(stop: AbortSignal, body: (signal: AbortSignal) => Promise<T>): Promise<T> => {
      stop.addEventListener("abort", () => stopping.abort());
      const over = new AbortController();
      const stuck = once(stopping.signal, "abort", { signal: over.signal }).then(async (): Promise<never> => {
        await pause(stopMs, over.signal);
        throw new Error("stopped before the end");
      });
      stuck.catch(() => {});
      try {
        // The event of an earlier stop does not come again.
        if (stop.aborted) throw new Error("stopped before the beginning");
        return await Promise.race([body(stopping.signal), stuck]);
      } finally {
        over.abort();
        await close();
      }
    },
  };
};
