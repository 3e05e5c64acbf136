/** Suggests the known name that is nearest to a misspelt one. */

/** Edits between two words, where a swap of neighbours is one edit (optimal string alignment distance). */
const distance = (a: string, b: string): number => {
  const rows: number[][] = [Array.from({ length: b.length + 1 }, (_, j) => j)];
  const at = (i: number, j: number): number => rows[i]?.[j] ?? Number.POSITIVE_INFINITY;
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    rows.push(row);
    for (let j = 1; j <= b.length; j += 1) {
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      const replaced = at(i - 1, j - 1) + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(at(i - 1, j) + 1, at(i, j - 1) + 1, replaced, isSwap ? at(i - 2, j - 2) + 1 : replaced));
    }
  }
  return at(a.length, b.length);
};

/** The largest share of differing letters at which a name is suggested. */
const SHARE = 0.4;
/** Longer words are not compared, which bounds the cost. */
const LENGTH_MAX = 80;

export const nearest = (word: string, names: Iterable<string>): string | null => {
  if (word.length > LENGTH_MAX) return null;
  let best: { name: string; edits: number } | null = null;
  for (const name of names) {
    const edits = distance(word.toLowerCase(), name.toLowerCase());
    if (edits <= SHARE * Math.max(word.length, name.length) && edits < (best?.edits ?? Infinity))
      best = { name, edits };
  }
  return best?.name ?? null;
};

const SHOWN = 3;
/** A word of fewer letters is a part of too many names. */
const PART_MIN = 3;

/**
 * The message for an unknown name. It offers the nearest known name, else those that contain the word, else `listing`; for
 * names that a comma joins it says how they are separated.
 */
export const noSuch = (what: string, word: string, names: Iterable<string>, listing: string): string => {
  const known = [...names];
  const holding = word.length < PART_MIN ? [] : known.filter((name) => name.includes(word));
  if (word.includes(",")) return `there is no ${what} "${word}"; separate several by blanks, not by commas`;
  const meant = nearest(word, known) ?? holding.slice(0, SHOWN).join(", ");
  return `there is no ${what} "${word}"; ${meant === "" ? listing : `did you mean ${meant}?`}`;
};
