/**
 * Keeps every side effect of a run in hand: children that are started, undo actions that must run whatever happens, the
 * watchdog for the case that the runner itself is killed. Order at the end: undo (the newest first), children, those that
 * others need last, watchdog. What could not be taken back is reported, and left to the watchdog.
 */
import { randomBytes } from "node:crypto";
import { writeFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { type ChildSpec, type Started, startChild } from "./child.ts";
import type { Exit } from "./child-output.ts";
import { ChildSignals } from "./child-signals.ts";
import { type Journal, RUN_ITSELF } from "./journal.ts";
import { birthOf, type Ended, endGroup, type GroupId, isGroupAlive, RUN_MARK, signalGroup } from "./processes.ts";
import { redactor as ofThisProcess, type Redactor } from "./redaction.ts";
import { startWatchdog, type Watchdog } from "./start-watchdog.ts";
import { listenForStop } from "./stop-signals.ts";
import { UndoStack } from "./undo-stack.ts";
import { pause } from "./waiting.ts";

const GRACE_MS = 5_000;

/** A file of this name, with the run's mark in it, makes a folder known for ours. */
export const FOLDER_MARK = ".floodgate-run";

export type Child = Omit<Started, "group"> & {
  readonly name: string;
  readonly pid: number;
  /** To this process alone, written to the journal. A stopped one is woken by the watchdog should the runner die. */
  signal: (signal: NodeJS.Signals) => void;
  /** SIGTERM to its group, SIGKILL after the grace. Also for one that has ended, whose children may still run. */
  stop: () => Promise<Ended>;
};

type SupervisorOptions = {
  journal: Journal;
  redactor?: Redactor;
  /** The watchdog's process (`WATCHDOG_PROCESS` in faults/); null only for tests of what is below: a run has one. */
  watchdog: string | null;
  /** How long the body may take to end once it was asked to stop, in milliseconds. */
  stopMs?: number;
};

type SignalListener = (signal: NodeJS.Signals, times: number, pending: string[]) => void;

export class Supervisor {
  readonly #journal: Journal;
  readonly #redactor: Redactor;
  readonly #watchdog: Watchdog | null;
  readonly #mark: string;
  readonly #stopMs: number;
  /** The journal's entry of the run itself: while it is open and its process lives, nobody else may heal. */
  readonly #self: string;
  readonly #stopping = new AbortController();
  readonly #undos = new UndoStack();
  readonly #signals: ChildSignals;
  readonly #children = new Map<Child, { spec: ChildSpec; undone: (detail: string) => void }>();
  readonly #starting = new Set<Promise<Child>>();
  #closing: Promise<string[]> | undefined;

  private constructor(options: SupervisorOptions, watchdog: Watchdog | null, mark: string) {
    this.#journal = options.journal;
    this.#signals = new ChildSignals(options.journal);
    this.#redactor = options.redactor ?? ofThisProcess;
    this.#stopMs = options.stopMs ?? 10_000;
    this.#watchdog = watchdog;
    this.#mark = mark;
    this.#self = this.#journal.about({
      kind: "child",
      name: RUN_ITSELF,
      undo: { how: "nothing" },
      run: { pid: process.pid, start: birthOf(process.pid), mark },
    });
    if (watchdog !== null) options.journal.keptBy(watchdog);
    // For whatever is started without us (a driver's processes, a compiler), so that it is known for ours.
    process.env[RUN_MARK] = mark;
  }

  /** Starts the watchdog; throws a sentence when that fails. */
  static async open(options: SupervisorOptions): Promise<Supervisor> {
    const mark = randomBytes(8).toString("hex");
    const { watchdog: entry, journal } = options;
    const watchdog = entry === null ? null : await startWatchdog(entry, journal.path, mark);
    return new Supervisor(options, watchdog, mark);
  }

  /** Fires on the first SIGINT or SIGTERM, and when `close` begins. */
  get signal(): AbortSignal {
    return this.#stopping.signal;
  }

  /** What would be taken back now, by name, the next first. */
  pending(): string[] {
    return [...this.#undos.names(), ...[...this.#children.keys()].map(({ name }) => name)];
  }

  /** Throws a sentence; then nothing runs. */
  async start(spec: ChildSpec): Promise<Child> {
    if (this.#closing !== undefined) throw new Error(`${spec.name} is not started: the run is ending`);
    const starting = this.#start(spec);
    this.#starting.add(starting);
    try {
      return await starting;
    } finally {
      this.#starting.delete(starting);
    }
  }

  async #start(spec: ChildSpec): Promise<Child> {
    const id = this.#journal.about({ kind: "child", name: spec.name, undo: { how: "nothing" }, detail: spec.command });
    let started: Started;
    try {
      started = await startChild(spec, this.#redactor, { [RUN_MARK]: this.#mark }, (group) =>
        this.#journal.done(id, { undo: { how: "end-process", ...group, end_last: spec.endLast === true } }),
      );
    } catch (error) {
      this.#journal.undone(id, "not started");
      throw error;
    }
    const { group, ...rest } = started;
    const child: Child = {
      ...rest,
      name: spec.name,
      pid: group.pid,
      signal: (signal) => this.#signals.send(spec.name, group, signal),
      stop: async () => {
        const ended = await endGroup(group, spec.graceMs ?? GRACE_MS);
        if (ended === "still there") throw new Error(`${spec.name} (process ${group.pid}) is there after SIGKILL`);
        await started.exited;
        this.#forget(child, ended);
        return ended;
      },
    };
    this.#children.set(child, { spec, undone: (detail) => this.#journal.undone(id, detail) });
    void started.exited.then(({ code, signal }: Exit) => {
      // One that left children of its own behind stays in hand.
      if (!isGroupAlive(group)) this.#forget(child, `exited ${signal ?? code}`);
    });
    return child;
  }

  /** Runs at the end of the run whatever happens; the returned function forgets it. Several run the newest first. */
  registerUndo(name: string, undo: () => Promise<void>, deadlineMs?: number): () => void {
    return this.#undos.add(name, undo, deadlineMs);
  }

  /**
   * A process that somebody else started, as leader of a group of its own: ended hard with the run, also by the watchdog.
   * To be called in the turn in which it was started. The returned function forgets it, for when it has ended.
   */
  adopt(name: string, pid: number): () => void {
    const group: GroupId = { pid, pgid: pid, start: birthOf(pid) };
    try {
      const undo = { how: "end-process", ...group, end_last: false } as const;
      const id = this.#journal.about({ kind: "child", name, undo });
      return this.#untilUndone(id, `end ${name}`, async () => void (await endGroup(group, 0)));
    } catch (error) {
      // What cannot be written down must not run.
      signalGroup(group, "SIGKILL");
      throw error;
    }
  }

  /**
   * A folder that is empty and will hold secrets: removed with the run, also by the watchdog. It is marked, and healing removes
   * no other. The same way to forget.
   */
  ownFolder(name: string, path: string): () => void {
    writeFileSync(join(path, FOLDER_MARK), this.#mark, { mode: 0o600, flag: "wx" });
    const id = this.#journal.about({ kind: "folder", name, undo: { how: "remove-folder", path } });
    return this.#untilUndone(id, `remove ${name}`, () => rm(path, { recursive: true, force: true, maxRetries: 3 }));
  }

  #untilUndone(id: string, name: string, undo: () => Promise<void>): () => void {
    const forget = this.registerUndo(name, async () => {
      await undo();
      this.#journal.undone(id, "with the run");
    });
    return () => {
      forget();
      this.#journal.undone(id, "over by itself");
    };
  }

  async stop(child: Child): Promise<Ended> {
    return await child.stop();
  }

  /** Those that others need come last. Returns what could not be ended. */
  async stopAll(): Promise<string[]> {
    const troubles: string[] = [];
    for (const last of [false, true]) {
      const now = [...this.#children].filter(([, { spec }]) => (spec.endLast === true) === last);
      await Promise.all(now.map(([child]) => child.stop().catch((error: Error) => void troubles.push(error.message))));
    }
    return troubles;
  }

  /**
   * From the first SIGINT, SIGTERM or SIGHUP on, `signal` is aborted. The listener hears every one with how many came and
   * what is still to be taken back: a second Ctrl-C is answered, and does not end the healing. Returns the way to stop
   * listening.
   */
  onSignal(listener: SignalListener): () => void {
    const { release } = listenForStop((signal, times) => {
      this.#stopping.abort();
      listener(signal, times, this.pending());
    });
    return release;
  }

  /** Runs the body and takes everything back after it, however it ends; one that does not stop when asked is left. */
  async within<T>(body: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const over = new AbortController();
    const stuck = new Promise<never>((_, reject) => {
      this.signal.addEventListener("abort", () => {
        void pause(this.#stopMs, over.signal).then(() => reject(new Error("stopped before the end")));
      });
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
    troubles.push(...(await this.#undos.run()));
    if (this.#watchdog?.isThere() === false) troubles.push("the watchdog had ended before the run did");
    troubles.push(...(await this.stopAll()));
    this.#journal.undone(this.#self);
    if (process.env[RUN_MARK] === this.#mark) delete process.env[RUN_MARK];
    // What we could not take back is still open in the journal; the watchdog has a fresh process and its own deadlines.
    await (troubles.length === 0 ? this.#watchdog?.bye() : this.#watchdog?.takeOver());
    return troubles;
  }

  #forget(child: Child, detail: string): void {
    this.#children.get(child)?.undone(detail);
    this.#children.delete(child);
    this.#signals.forget(child.pid, detail);
  }
}
