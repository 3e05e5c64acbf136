/**
 * The journal of side effects: NDJSON, appended and flushed to disk before the side effect is done, so that whoever
 * finds it can take back what the run could not. The watchdog and `chaos --heal` read it.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { redactor as ofThisProcess, type Redactor } from "./redaction.ts";
import type { Undo } from "./undo.ts";

type EffectKind = "proxy" | "fault" | "child" | "folder" | "signal" | "key" | "session" | "fixture";

/** `about`: will be done now. `done`: was done. `undone`: was taken back, or is over by itself. */
export type JournalEntry = {
  /** ISO time, UTC. */
  at: string;
  /** The same in the entries of one side effect. */
  id: string;
  kind: EffectKind;
  phase: "about" | "done" | "undone";
  name: string;
  /** On `about`, and again on `done` where more is known by then (a child's pid). */
  undo?: Undo;
  detail?: string;
  /** Who wrote it, where it was not the run. */
  by?: "watchdog" | "heal";
};

export class Journal {
  readonly path: string;
  readonly #descriptor: number;
  readonly #redactor: Redactor;
  readonly #open = new Map<string, { kind: EffectKind; name: string }>();
  // Two runs may write into one file, one after the other.
  readonly #prefix = randomBytes(3).toString("hex");
  #last = 0;
  #closed = false;
  #trouble: string | null = null;

  constructor(path: string, redactor: Redactor = ofThisProcess) {
    this.path = path;
    this.#redactor = redactor;
    this.#descriptor = openSync(path, "a", 0o600);
  }

  /** On disk when it returns; throws when it cannot be written, and then the side effect must not be done. */
  about(effect: { kind: EffectKind; name: string; undo: Undo; detail?: string }): string {
    const id = `${this.#prefix}-${++this.#last}`;
    if (this.#closed) throw new Error(`the journal is closed; "${effect.name}" must not be done now`);
    this.#write({ id, phase: "about", ...effect });
    this.#open.set(id, { kind: effect.kind, name: effect.name });
    return id;
  }

  done(id: string, more: { undo?: Undo; detail?: string } = {}): void {
    this.#write({ id, phase: "done", ...this.#effect(id), ...more });
  }

  /**
   * Twice is once. After `close`, and on a disk that is full, it is not written: then the entry stays open, and healing
   * again does no harm. What has been taken back must never stop because it cannot be written down.
   */
  undone(id: string, detail?: string): void {
    const effect = this.#open.get(id);
    if (effect === undefined || this.#closed) return;
    this.#open.delete(id);
    try {
      this.#write({ id, phase: "undone", ...effect, ...(detail === undefined || detail === "" ? {} : { detail }) });
    } catch (error) {
      this.#trouble ??= (error as Error).message;
    }
  }

  /** Why something that was taken back does not stand here as taken back; `null` where all of it does. */
  get trouble(): string | null {
    return this.#trouble;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    closeSync(this.#descriptor);
  }

  #effect(id: string): { kind: EffectKind; name: string } {
    const effect = this.#open.get(id);
    if (effect === undefined) throw new Error(`the journal has no open side effect "${id}"`);
    return effect;
  }

  #write(entry: Omit<JournalEntry, "at">): void {
    appendEntry(this.#descriptor, entry, this.#redactor);
  }
}

/** One entry onto an open file, flushed. */
export const appendEntry = (descriptor: number, entry: Omit<JournalEntry, "at">, redactor: Redactor): void => {
  const masked = redactor.redactValue({ at: new Date().toISOString(), ...entry });
  writeSync(descriptor, `${JSON.stringify(masked)}\n`);
  fsyncSync(descriptor);
};

/** `torn`: lines that are no entry, such as the last one of a run that was killed while writing it. */
export const readJournal = (path: string): { entries: JournalEntry[]; torn: number } => {
  const entries: JournalEntry[] = [];
  let torn = 0;
  for (const line of readFileSync(path, "utf8").split("\n")) {
    if (line === "") continue;
    try {
      const entry = JSON.parse(line) as JournalEntry;
      if (typeof entry?.id === "string" && typeof entry.phase === "string") entries.push(entry);
      else torn++;
    } catch {
      torn++;
    }
  }
  return { entries, torn };
};

/** Name of the entry of the run itself, a child whose `detail` is its number and start time. */
export const RUN_ITSELF = "the run itself";

export type OpenEffect = { id: string; kind: EffectKind; name: string; undo: Undo; phase: "about" | "done" };

/**
 * What was begun and not taken back, the newest first. An effect that was only about to be done counts: it may have
 * happened.
 */
export const openEffects = (entries: JournalEntry[]): OpenEffect[] => {
  const open = new Map<string, OpenEffect>();
  for (const { id, kind, name, phase, undo } of entries) {
    if (phase === "undone") open.delete(id);
    else open.set(id, { id, kind, name, phase, undo: undo ?? open.get(id)?.undo ?? { how: "nothing" } });
  }
  return [...open.values()].reverse();
};
