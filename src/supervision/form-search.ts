/**
 * Finds many texts in another at once, whatever their case: every line of a history is searched for every form of every
 * secret, so what a search costs must not grow with their number. A window of six characters is moved by what its last three
 * allow (Wu and Manber, "A fast algorithm for multi-pattern searching", 1994).
 */

/** Shorter texts are not found. */
export const FORM_MIN_CHARS = 6;
const BLOCK = 3;
const FARTHEST = FORM_MIN_CHARS - BLOCK + 1;
const BITS = 6;
const MASK = (1 << BITS) - 1;

type Found = { from: number; to: number; form: string };

/** In small letters, at the same places. */
const small = (text: string): string => {
  const lower = text.toLowerCase();
  return lower.length === text.length ? lower : text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
};

const blockAt = (text: string, at: number): number =>
  ((text.charCodeAt(at) & MASK) << (2 * BITS)) |
  ((text.charCodeAt(at + 1) & MASK) << BITS) |
  (text.charCodeAt(at + 2) & MASK);

export class FormSearch {
  /** By their first six characters, the longest first. */
  readonly #forms = new Map<string, string[]>();
  readonly #moves = new Uint8Array(1 << (BLOCK * BITS)).fill(FARTHEST);

  add(form: string): string {
    const known = small(form);
    const begin = known.slice(0, FORM_MIN_CHARS);
    const forms = this.#forms.get(begin) ?? [];
    if (!forms.includes(known)) forms.push(known);
    forms.sort((a, b) => b.length - a.length);
    this.#forms.set(begin, forms);
    for (let at = 0; at < FARTHEST; at++) {
      const block = blockAt(begin, at);
      this.#moves[block] = Math.min(this.#moves[block] as number, FARTHEST - 1 - at);
    }
    return known;
  }

  /** Where forms stand, in order; those that overlap are one, by the form that begins it. */
  in(text: string): Found[] {
    if (this.#forms.size === 0 || text.length < FORM_MIN_CHARS) return [];
    const found: Found[] = [];
    const searched = small(text);
    for (let at = 0; at <= searched.length - FORM_MIN_CHARS; ) {
      const move = this.#moves[blockAt(searched, at + FORM_MIN_CHARS - BLOCK)] as number;
      if (move > 0) {
        at += move;
        continue;
      }
      const form = this.#forms
        .get(searched.slice(at, at + FORM_MIN_CHARS))
        ?.find((one) => searched.startsWith(one, at));
      if (form !== undefined) {
        const before = found.at(-1);
        if (before !== undefined && at < before.to) before.to = Math.max(before.to, at + form.length);
        else found.push({ from: at, to: at + form.length, form });
      }
      at += 1;
    }
    return found;
  }
}
