/** Undo actions of a run, the newest first: each has a deadline, and one that fails stops no other. */
import { pause } from "./waiting.ts";

/** Long enough for the whole ladder of faults/healing.ts with its default deadlines. */
const UNDO_MS = 40_000;

type Undoing = { name: string; undo: () => Promise<void>; deadlineMs: number };

const orTooLate = async ({ name, undo, deadlineMs }: Undoing): Promise<string | null> => {
  const inTime = new AbortController();
  const tooLate = pause(deadlineMs, inTime.signal).then(() => `${name}: not done within ${deadlineMs} ms`);
  const tried = (async () => await undo())().then(
    () => null,
    (error: unknown) => `${name}: ${(error as Error).message}`,
  );
  const trouble = await Promise.race([tried, tooLate]);
  inTime.abort();
  return trouble;
};

export class UndoStack {
  readonly #undos: Undoing[] = [];

  /** The returned function forgets it. */
  add(name: string, undo: () => Promise<void>, deadlineMs: number = UNDO_MS): () => void {
    const entry: Undoing = { name, undo, deadlineMs };
    this.#undos.push(entry);
    return () => this.#remove(entry);
  }

  names(): string[] {
    return this.#undos.map(({ name }) => name).reverse();
  }

  /** Returns what could not be undone, as sentences. Never rejects. */
  async run(): Promise<string[]> {
    const troubles: string[] = [];
    for (let next = this.#undos.at(-1); next !== undefined; next = this.#undos.at(-1)) {
      const trouble = await orTooLate(next);
      if (trouble !== null) troubles.push(trouble);
      // Only now: until here it is pending, and it may have forgotten itself.
      this.#remove(next);
    }
    return troubles;
  }

  #remove(entry: Undoing): void {
    const at = this.#undos.indexOf(entry);
    if (at >= 0) this.#undos.splice(at, 1);
  }
}
