/**
 * Owns every side effect of a run. Order at the end: undos (newest first), children, children that others need, watchdog, to
 * which what could not be undone is left.
 */
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type ChildSpec, type Started, startChild } from "./child.ts";
import { type Journal, RUN_ITSELF } from "./journal.ts";
import { birthOf, endGroup, type GroupId, isGroupAlive, RUN_MARK, signalGroup, signalProcess } from "./processes.ts";
import type { Effect } from "./undo.ts";
import { inTime, pause } from "./waiting.ts";
import { startWatchdog, type Watchdog } from "./watchdog.ts";

const GRACE_MS = 5_000;
const STOP_MS = 10_000;
/** Long enough for the whole ladder of faults/healing.ts with its default deadlines. */
const UNDO_MS = 40_000;

/** A file of this name, with the run's mark in it, makes a folder known for ours. */
export const FOLDER_MARK = ".floodgate-run";

export type Child = Omit<Started, "group"> & {
  readonly name: string;
  readonly pid: number;
  /** To this process alone, written to the journal. */
  signal: (signal: NodeJS.Signals) => void;
  /** SIGTERM to its group, SIGKILL after the grace. Also for one that has ended, whose children may still run. */
  stop: () => ReturnType<typeof endGroup>;
};

/** A side effect that was written down. */
export type InHand = {
  done(): void;
  /** Throws if it failed; it stays open, so that the end of the run and the watchdog try it again. */
  takeBack(): Promise<void>;
  /** There is nothing to take back any more. */
  over(): void;
};

type Undoing = { name: string; undo: () => Promise<unknown>; deadlineMs: number };

type SupervisorOptions = {
  journal: Journal;
  /** The watchdog's process (`WATCHDOG_PROCESS` in faults/); null only for tests of what is below: a run has one. */
  watchdog: string | null;
  /** How long the body may take to end once it was asked to stop, in milliseconds. */
  stopMs?: number;
};

const tryUndo = async ({ name, undo, deadlineMs }: Undoing): Promise<string | null> => {
  const tried = (async () => await undo())().then(
    () => null,
    (error: unknown) => `${name}: ${(error as Error).message}`,
  );
  const trouble = await inTime(tried, deadlineMs);
  return trouble === "late" ? `${name}: not done within ${deadlineMs} ms` : trouble;
};

export class Supervisor {
  readonly #journal: Journal;
  readonly #watchdog: Watchdog | null;
  readonly #mark: string;
  readonly #stopMs: number;
  /** The journal's entry of the run itself: while it is open and its process lives, nobody else may heal. */
  readonly #self: string;
  readonly #stopping = new AbortController();
  readonly #undos = new Set<Undoing>();
  /** Whether it ends last, by child. */
  readonly #children = new Map<Child, boolean>();
  readonly #starting = new Set<Promise<Child>>();
  #closing: Promise<string[]> | undefined;

  private constructor({ journal, stopMs = STOP_MS }: SupervisorOptions, watchdog: Watchdog | null, mark: string) {
    this.#journal = journal;
    this.#stopMs = stopMs;
    this.#watchdog = watchdog;
    this.#mark = mark;
    const run = { pid: process.pid, start: birthOf(process.pid), mark };
    this.#self = journal.about({ kind: "child", name: RUN_ITSELF, undo: { how: "nothing" }, run });
    if (watchdog !== null) journal.keptBy(watchdog);
    // For whatever is started without us (a driver's processes, a compiler), so that it is known for ours.
    process.env[RUN_MARK] = mark;
  }

  static async open(options: SupervisorOptions): Promise<Supervisor> {
    const mark = randomBytes(8).toString("hex");
    const { watchdog: entry, journal } = options;
    const watchdog = entry === null ? null : await startWatchdog(entry, journal.path, mark);
    return new Supervisor(options, watchdog, mark);
  }

  /** Fires when the body is to stop, and when `close` begins. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  pending(): string[] {
    return [...[...this.#undos].toReversed(), ...this.#children.keys()].map(({ name }) => name);
  }

  async start(spec: ChildSpec): Promise<Child> {
    if (this.#closing !== undefined) throw new Error(`${spec.name} is not started: the run is ending`);
    const starting = this.#start(spec);
    this.#starting.add(starting);
    return starting.finally(() => this.#starting.delete(starting));
  }

  async #start(spec: ChildSpec): Promise<Child> {
    const { name, endLast = false } = spec;
    const entry = this.#journal.about({ kind: "child", name, undo: { how: "nothing" }, detail: spec.command });
    const spawned = (group: GroupId): void =>
      this.#journal.done(entry, { undo: { how: "end-process", ...group, end_last: endLast } });
    const starting = startChild(spec, { [RUN_MARK]: this.#mark }, spawned);
    starting.catch(() => this.#journal.undone(entry, "not started"));
    const { group, ...started } = await starting;
    const { pid } = group;
    /** The journal's entry of the signal that stopped it; the end of its group wakes it. */
    let stopped: string | null = null;
    const runsAgain = (detail: string): void => {
      if (stopped !== null) this.#journal.undone(stopped, detail);
      stopped = null;
    };
    const forget = (detail: string): void => {
      this.#journal.undone(entry, detail);
      this.#children.delete(child);
      runsAgain(detail);
    };
    const child: Child = {
      ...started,
      name,
      pid,
      signal: (signal) => {
        // Waking is healing, which must not wait for a journal or a watchdog. All else is written down before it is sent.
        const about = { kind: "signal", name, undo: { how: "nothing" }, detail: signal } as const;
        const id = signal === "SIGCONT" ? null : this.#journal.about(about);
        const over = (detail: string): void => void (id !== null && this.#journal.undone(id, detail));
        if (!signalProcess(group, signal)) {
          over("not sent");
          throw new Error(`${name} (process ${pid}) is gone and cannot take ${signal}`);
        }
        if (signal === "SIGCONT") runsAgain(signal);
        else if (signal === "SIGSTOP" && stopped === null) stopped = id;
        else over("nothing to take back");
      },
      stop: async () => {
        const ended = await endGroup(group, spec.graceMs ?? GRACE_MS);
        if (ended === "still there") throw new Error(`${name} (process ${pid}) is there after SIGKILL`);
        await started.exited;
        forget(ended);
        return ended;
      },
    };
    this.#children.set(child, endLast);
    void started.exited.then(({ code, signal }) => {
      // One that left children of its own behind stays in hand.
      if (!isGroupAlive(group)) forget(`exited ${signal ?? code}`);
    });
    return child;
  }

  /** Runs at the end of the run whatever happens; the returned function forgets it. Several run the newest first. */
  registerUndo(name: string, undo: () => Promise<unknown>, deadlineMs: number = UNDO_MS): () => void {
    const entry: Undoing = { name, undo, deadlineMs };
    this.#undos.add(entry);
    return () => void this.#undos.delete(entry);
  }

  /**
   * Writes a side effect down before it is done; throws if it cannot, and then it must not be done. It is taken back at the end of
   * the run whatever happens, under `name`, by `takeBack`, which returns what it did.
   */
  begin(effect: Omit<Effect, "id">, name: string, takeBack: () => Promise<string>): InHand {
    const id = this.#journal.about(effect);
    const undo = async (): Promise<void> => this.#journal.undone(id, await takeBack());
    const forget = this.registerUndo(name, undo);
    return {
      done: () => this.#journal.done(id),
      takeBack: () => undo().then(forget),
      over: () => {
        forget();
        this.#journal.undone(id, "over by itself");
      },
    };
  }

  /**
   * Kills a process that somebody else started, as leader of its own group, with the run, also by the watchdog. To be called
   * in the turn in which it was started. The returned function forgets it.
   */
  adopt(name: string, pid: number): () => void {
    const group: GroupId = { pid, pgid: pid, start: birthOf(pid) };
    const undo = { how: "end-process", ...group, end_last: false } as const;
    try {
      return this.begin({ kind: "child", name, undo }, `end ${name}`, () => endGroup(group, 0)).over;
    } catch (error) {
      // What cannot be written down must not run.
      signalGroup(group, "SIGKILL");
      throw error;
    }
  }

  /** For an empty folder that will hold secrets: removed with the run, also by the watchdog. The returned function forgets it. */
  ownFolder(name: string, path: string): () => void {
    writeFileSync(join(path, FOLDER_MARK), this.#mark, { mode: 0o600, flag: "wx" });
    const effect = { kind: "folder", name, undo: { how: "remove-folder", path } } as const;
    const remove = () => rm(path, { recursive: true, force: true, maxRetries: 3 }).then(() => "removed");
    return this.begin(effect, `remove ${name}`, remove).over;
  }

  /** Those that others need come last. Returns what could not be ended. */
  async stopAll(): Promise<string[]> {
    const troubles: string[] = [];
    for (const last of [false, true]) {
      const now = [...this.#children].filter(([, endLast]) => endLast === last);
      await Promise.all(now.map(([child]) => child.stop().catch((error: Error) => void troubles.push(error.message))));
    }
    return troubles;
  }

  /** Takes everything back after the body, however it ends; one that does not end when `stop` fires is left. */
  async within<T>(stop: AbortSignal, body: (signal: AbortSignal) => Promise<T>): Promise<T> {
    stop.addEventListener("abort", () => this.#stopping.abort());
    const over = new AbortController();
    const stuck = once(this.signal, "abort", { signal: over.signal }).then(async (): Promise<never> => {
      await pause(this.#stopMs, over.signal);
      throw new Error("stopped before the end");
    });
    stuck.catch(() => {});
    try {
      return await Promise.race([body(this.signal), stuck]);
    } finally {
      over.abort();
      await this.close();
    }
  }

  /** Takes everything back. Never rejects; returns what could not be, as sentences. A second call waits for the first. */
  close(): Promise<string[]> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<string[]> {
    this.#stopping.abort();
    const troubles: string[] = [];
    // One that is being started in this very turn must be in hand before the others are ended.
    await Promise.allSettled(this.#starting);
    for (let next = [...this.#undos].at(-1); next !== undefined; next = [...this.#undos].at(-1)) {
      const trouble = await tryUndo(next);
      if (trouble !== null) troubles.push(trouble);
      // Only now: until here it is pending, and it may have forgotten itself.
      this.#undos.delete(next);
    }
    if (this.#watchdog?.isThere() === false) troubles.push("the watchdog had ended before the run did");
    troubles.push(...(await this.stopAll()));
    this.#journal.undone(this.#self);
    if (process.env[RUN_MARK] === this.#mark) delete process.env[RUN_MARK];
    // What we could not take back is still open in the journal; the watchdog has a fresh process and its own deadlines.
    await (troubles.length === 0 ? this.#watchdog?.bye() : this.#watchdog?.takeOver());
    return troubles;
  }
}
