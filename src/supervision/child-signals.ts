/** Signals sent to children on purpose, written down before: a stopped process must not stay stopped when the run dies. */
import type { Journal } from "./journal.ts";
import { type ProcessId, signalProcess } from "./processes.ts";
import type { Undo } from "./undo.ts";

export class ChildSignals {
  readonly #journal: Journal;
  /** Journal entries of stopped processes, by number. */
  readonly #stopped = new Map<number, string>();

  constructor(journal: Journal) {
    this.#journal = journal;
  }

  /** To this process alone. Throws a sentence when it is gone. */
  send(name: string, target: ProcessId, signal: NodeJS.Signals): void {
    const { pid, start } = target;
    const deliver = (): void => {
      if (!signalProcess(target, signal)) throw new Error(`${name} (process ${pid}) is gone and cannot take ${signal}`);
    };
    if (signal === "SIGCONT" && this.#stopped.has(pid)) {
      deliver();
      this.forget(pid, signal);
      return;
    }
    const stops = signal === "SIGSTOP";
    const undo: Undo = stops ? { how: "signal", pid, start, signal: "SIGCONT" } : { how: "nothing" };
    const id = this.#journal.about({ kind: "signal", name, undo, detail: signal });
    try {
      deliver();
    } catch (error) {
      this.#journal.undone(id, "not sent");
      throw error;
    }
    if (!stops) this.#journal.undone(id, "nothing to take back");
    else if (this.#stopped.has(pid)) this.#journal.undone(id, "it was stopped already");
    else this.#stopped.set(pid, id);
  }

  /** The process runs again, or has ended. */
  forget(pid: number, detail: string): void {
    const id = this.#stopped.get(pid);
    if (id !== undefined) this.#journal.undone(id, detail);
    this.#stopped.delete(pid);
  }
}
