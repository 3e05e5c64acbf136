/**
 * The journal of side effects: NDJSON, flushed to disk before the side effect is done. It names what was done, for `chaos
 * --heal`, and holds nothing that could be executed (undo.ts): that goes to the keeper, the live watchdog.
 */
import { randomBytes } from "node:crypto";
import { closeSync, fsyncSync, openSync, readFileSync, writeSync } from "node:fs";
import { openOwnFile } from "./private-file.ts";
import type { ProcessId } from "./processes.ts";
import { redactor as ofThisProcess, Redactor } from "./redaction.ts";
import { type Effect, KINDS, type NamedUndo, type Notes, namedUndo, START, textOf, type Undo } from "./undo.ts";
import { fileProblem } from "./user-file.ts";

/** A run by its process, and by the mark that its children carry in their environment. */
export type RunItself = ProcessId & { mark: string };

/** `about`: will be done now. `done`: was done. `undone`: was taken back, or is over by itself. */
const PHASES = ["about", "done", "undone"] as const;

export type JournalEntry = {
  at: string;
  id: string;
  kind: Effect["kind"];
  phase: (typeof PHASES)[number];
  name: string;
  /** On `about`, and again on `done` where more is known by then (a child's pid). */
  undo?: NamedUndo;
  detail?: string;
  run?: RunItself;
  by?: "watchdog" | "heal";
};

/** Receives every side effect before it is done, and when it is over. Throws when it cannot take it in. */
type Keeper = { keep(effect: Effect): void; forget(id: string): void };

const append = (descriptor: number, entry: Omit<JournalEntry, "at">, redactor: Redactor): void => {
  const masked = redactor.redactValue({ at: new Date().toISOString(), ...entry });
  writeSync(descriptor, `${JSON.stringify(masked)}\n`);
  fsyncSync(descriptor);
};

export class Journal {
  readonly path: string;
  /** Why something that was taken back does not stand here as taken back; `null` where all of it does. */
  trouble: string | null = null;
  readonly #descriptor: number;
  readonly #redactor: Redactor;
  readonly #open = new Map<string, Effect>();
  #keeper: Keeper | null = null;
  // Two runs may write into one file, one after the other.
  readonly #prefix = randomBytes(3).toString("hex");
  #last = 0;
  #closed = false;

  constructor(path: string, redactor: Redactor = ofThisProcess) {
    this.path = path;
    this.#redactor = redactor;
    this.#descriptor = openSync(path, "a", 0o600);
  }

  /** From now on the keeper hears of every effect; first of what is open already. */
  keptBy(keeper: Keeper): void {
    for (const effect of this.#open.values()) keeper.keep(effect);
    this.#keeper = keeper;
  }

  /** On disk and with the keeper when it returns; throws when it is not, and then the side effect must not be done. */
  about(effect: { kind: Effect["kind"]; name: string; undo: Undo; detail?: string; run?: RunItself }): string {
    const id = `${this.#prefix}-${++this.#last}`;
    const { kind, name, undo } = effect;
    if (this.#closed) throw new Error(`the journal is closed; "${name}" must not be done now`);
    append(this.#descriptor, { id, phase: "about", ...effect, undo: namedUndo(undo) }, this.#redactor);
    this.#keep({ id, kind, name, undo });
    return id;
  }

  done(id: string, { undo, ...more }: { undo?: Undo; detail?: string } = {}): void {
    const effect = this.#open.get(id);
    if (effect === undefined) throw new Error(`the journal has no open side effect "${id}"`);
    const { kind, name } = effect;
    const named = undo === undefined ? {} : { undo: namedUndo(undo) };
    append(this.#descriptor, { id, phase: "done", kind, name, ...named, ...more }, this.#redactor);
    this.#keep({ ...effect, undo: undo ?? effect.undo });
  }

  /** Idempotent. After `close`, and on a full disk, the entry stays open, which does no harm: healing again is safe. */
  undone(id: string, detail?: string): void {
    const effect = this.#open.get(id);
    if (effect === undefined || this.#closed) return;
    const { kind, name } = effect;
    this.#open.delete(id);
    this.#keeper?.forget(id);
    try {
      append(this.#descriptor, { id, phase: "undone", kind, name, detail: detail || undefined }, this.#redactor);
    } catch (error) {
      this.trouble ??= fileProblem(error)?.sentence ?? (error as Error).message;
    }
  }

  close(): void {
    if (!this.#closed) closeSync(this.#descriptor);
    this.#closed = true;
  }

  #keep(effect: Effect): void {
    this.#open.set(effect.id, effect);
    this.#keeper?.keep(effect);
  }
}

export type SideEffects = Pick<Journal, "about" | "done" | "undone">;

const MARK = /^[0-9a-f]{16}$/;

const markedRun = (value: unknown): RunItself | undefined => {
  const { pid, start, mark } = (value ?? {}) as Record<string, unknown>;
  const isRun = Number.isSafeInteger(pid) && typeof start === "string" && START.test(start);
  return isRun && typeof mark === "string" && MARK.test(mark) ? { pid: pid as number, start, mark } : undefined;
};

const entryOf = (line: string): JournalEntry | null => {
  let said: Record<string, unknown> | null;
  try {
    said = JSON.parse(line);
  } catch {
    return null;
  }
  const kind = KINDS.find((known) => known === said?.kind);
  const phase = PHASES.find((known) => known === said?.phase);
  if (typeof said?.id !== "string" || kind === undefined || phase === undefined) return null;
  return {
    ...{ at: textOf(said.at) ?? "", id: said.id, kind, phase, name: textOf(said.name) ?? "" },
    ...(said.undo !== undefined && { undo: namedUndo(said.undo) }),
    ...{ detail: textOf(said.detail), run: markedRun(said.run) },
    ...((said.by === "watchdog" || said.by === "heal") && { by: said.by }),
  };
};

/** `torn`: unreadable lines, such as one cut off by a kill. Throws where somebody else could have written it. */
export const readJournal = (path: string): { entries: JournalEntry[]; torn: number } => {
  const descriptor = openOwnFile(path, "read");
  try {
    const lines = readFileSync(descriptor, "utf8").split("\n").filter(Boolean).map(entryOf);
    const entries = lines.filter((entry) => entry !== null);
    return { entries, torn: lines.length - entries.length };
  } finally {
    closeSync(descriptor);
  }
};

export const RUN_ITSELF = "the run itself";

type OpenEffect = Omit<Effect, "undo"> & { undo: NamedUndo; phase: "about" | "done" };

/** What was begun and not taken back, the newest first. One that was only about to be done counts: it may have happened. */
export const openEffects = (entries: readonly JournalEntry[]): OpenEffect[] => {
  const open = new Map<string, OpenEffect>();
  for (const { id, kind, name, phase, undo } of entries) {
    if (phase === "undone") open.delete(id);
    else open.set(id, { id, kind, name, phase, undo: undo ?? open.get(id)?.undo ?? { how: "nothing" } });
  }
  return [...open.values()].reverse();
};

/** The run that wrote the journal, if it has not ended in order. */
export const runOf = (entries: readonly JournalEntry[]): RunItself | null => {
  const open = openEffects(entries).find(({ name }) => name === RUN_ITSELF);
  return entries.find(({ id }) => id === open?.id)?.run ?? null;
};

/** Notes at the end of a journal, after the line that the run may have left unfinished. Throws where it is not ours. */
export const notesIn = (path: string, by: "watchdog" | "heal"): Notes => {
  const descriptor = openOwnFile(path, "append");
  const text = readFileSync(descriptor, "utf8");
  if (text !== "" && !text.endsWith("\n")) writeSync(descriptor, "\n");
  const redactor = new Redactor();
  return {
    write: ({ id, kind, name, undo }, phase, detail) =>
      append(descriptor, { id, kind, name, phase, detail, undo: namedUndo(undo), by }, redactor),
    close: () => closeSync(descriptor),
  };
};
