/**
 * The journal of side effects: NDJSON, appended and flushed to disk before the side effect is done. It names what was done, so
 * that `chaos --heal` can take back what the run could not; it holds nothing that could be executed (undo.ts). What can be
 * executed goes to the keeper, the live watchdog, and stays in memory there.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { fileProblem } from "./file-problem.ts";
import { openOwnFile } from "./own-file.ts";
import type { ProcessId } from "./processes.ts";
import { redactor as ofThisProcess, type Redactor } from "./redaction.ts";
import { type NamedUndo, namedUndo, readNamedUndo, START, textOf, type Undo } from "./undo.ts";

type EffectKind = "proxy" | "fault" | "child" | "folder" | "signal" | "key" | "session" | "fixture";

/** A run by its process, and by the mark that its children carry in their environment. */
export type RunItself = ProcessId & { mark: string };

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
  undo?: NamedUndo;
  detail?: string;
  /** In the entry of the run itself. */
  run?: RunItself;
  /** Who wrote it, where it was not the run. */
  by?: "watchdog" | "heal";
};

/** A side effect with what takes it back, for memory alone. */
export type Effect = { id: string; kind: EffectKind; name: string; undo: Undo };

/** Hears of every side effect before it is done, and when it is over. Throws when it cannot take it in. */
export type Keeper = { keep(effect: Effect): void; forget(id: string): void };

export class Journal {
  readonly path: string;
  readonly #descriptor: number;
  readonly #redactor: Redactor;
  readonly #open = new Map<string, Effect>();
  #keeper: Keeper | null = null;
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

  /** From now on the keeper is told; first of what is open already. */
  keptBy(keeper: Keeper): void {
    for (const effect of this.#open.values()) keeper.keep(effect);
    this.#keeper = keeper;
  }

  /** On disk and with the keeper when it returns; throws when it is not, and then the side effect must not be done. */
  about(effect: { kind: EffectKind; name: string; undo: Undo; detail?: string; run?: RunItself }): string {
    const id = `${this.#prefix}-${++this.#last}`;
    const { kind, name, undo } = effect;
    if (this.#closed) throw new Error(`the journal is closed; "${name}" must not be done now`);
    this.#write({ id, phase: "about", ...effect, undo: namedUndo(undo) });
    this.#keep({ id, kind, name, undo });
    return id;
  }

  done(id: string, more: { undo?: Undo; detail?: string } = {}): void {
    const { kind, name, undo: before } = this.#effect(id);
    const { undo, ...rest } = more;
    const named = undo === undefined ? {} : { undo: namedUndo(undo) };
    this.#write({ id, phase: "done", kind, name, ...named, ...rest });
    this.#keep({ id, kind, name, undo: undo ?? before });
  }

  /**
   * Twice is once. After `close`, and on a disk that is full, it is not written: then the entry stays open, and healing
   * again does no harm. What has been taken back must never stop because it cannot be written down.
   */
  undone(id: string, detail?: string): void {
    const effect = this.#open.get(id);
    if (effect === undefined || this.#closed) return;
    const { kind, name } = effect;
    this.#open.delete(id);
    this.#keeper?.forget(id);
    try {
      this.#write({ id, phase: "undone", kind, name, ...(detail === undefined || detail === "" ? {} : { detail }) });
    } catch (error) {
      this.#trouble ??= fileProblem(error)?.sentence ?? (error as Error).message;
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

  #keep(effect: Effect): void {
    this.#open.set(effect.id, effect);
    this.#keeper?.keep(effect);
  }

  #effect(id: string): Effect {
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

const KINDS: readonly unknown[] = ["proxy", "fault", "child", "folder", "signal", "key", "session", "fixture"];
const PHASES: readonly unknown[] = ["about", "done", "undone"];
const MARK = /^[0-9a-f]{16}$/;

const runOf = (value: unknown): RunItself | undefined => {
  const { pid, start, mark } = (value ?? {}) as Record<string, unknown>;
  const isRun = Number.isSafeInteger(pid) && typeof start === "string" && START.test(start);
  return isRun && typeof mark === "string" && MARK.test(mark) ? { pid: pid as number, start, mark } : undefined;
};

/** Built anew from known fields; `null` where the line is no entry. */
const entryOf = (line: string): JournalEntry | null => {
  const said = JSON.parse(line) as Record<string, unknown> | null;
  const { id, kind, phase } = said ?? {};
  const [at = "", name = ""] = [textOf(said?.at), textOf(said?.name)];
  if (typeof id !== "string" || !KINDS.includes(kind) || !PHASES.includes(phase)) return null;
  const entry = { at, id, kind, phase, name } as JournalEntry;
  if (said?.undo !== undefined) entry.undo = readNamedUndo(said.undo);
  const [detail, run] = [textOf(said?.detail), runOf(said?.run)];
  if (detail !== undefined) entry.detail = detail;
  if (run !== undefined) entry.run = run;
  if (said?.by === "watchdog" || said?.by === "heal") entry.by = said.by;
  return entry;
};

/**
 * `torn`: lines that are no entry, such as the last one of a run that was killed while writing it. Throws a sentence where the
 * file or its folder could have been written by somebody else.
 */
export const readJournal = (path: string): { entries: JournalEntry[]; torn: number } => {
  const entries: JournalEntry[] = [];
  let torn = 0;
  const descriptor = openOwnFile(path, "read");
  try {
    for (const line of readFileSync(descriptor, "utf8").split("\n")) {
      if (line === "") continue;
      let entry: JournalEntry | null = null;
      try {
        entry = entryOf(line);
      } catch {
        // Counted below.
      }
      if (entry === null) torn++;
      else entries.push(entry);
    }
  } finally {
    closeSync(descriptor);
  }
  return { entries, torn };
};

/** Name of the entry of the run itself. */
export const RUN_ITSELF = "the run itself";

/** As a journal has it. */
export type OpenEffect = Omit<Effect, "undo"> & { undo: NamedUndo; phase: "about" | "done" };

/**
 * What was begun and not taken back, the newest first. An effect that was only about to be done counts: it may have
 * happened.
 */
export const openEffects = (entries: readonly JournalEntry[]): OpenEffect[] => {
  const open = new Map<string, OpenEffect>();
  for (const { id, kind, name, phase, undo } of entries) {
    if (phase === "undone") open.delete(id);
    else open.set(id, { id, kind, name, phase, undo: undo ?? open.get(id)?.undo ?? { how: "nothing" } });
  }
  return [...open.values()].reverse();
};
