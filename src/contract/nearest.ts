/** Suggests what somebody meant who misspelt a name. */

/** Edits between two words, where a swap of neighbours is one edit (optimal string alignment distance). */
const distance = (a: string, b: string): number => {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, i) => i);
  for (let i = 1; i <= a.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= b.length; j += 1) {
      const at = (line: readonly number[], index: number): number => line[index] ?? Number.POSITIVE_INFINITY;
      const isSame = a[i - 1] === b[j - 1];
      let least = Math.min(at(last, j) + 1, at(row, j - 1) + 1, at(last, j - 1) + (isSame ? 0 : 1));
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1];
      if (isSwap) least = Math.min(least, at(beforeLast, j - 2) + 1);
      row.push(least);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] ?? a.length;
};

/** The largest share of differing letters. */
const SHARE = 0.4;
/** Longer words are not compared, which bounds the cost. */
const LENGTH_MAX = 80;

/** The nearest name, or `null`. */
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

/** The message for an unknown name: the nearest one, or `listing`, which says what names there are. */
export const noSuch = (what: string, word: string, names: Iterable<string>, listing: string): string => {
  const name = nearest(word, names);
  return `there is no ${what} "${word}"; ${name === null ? listing : `did you mean ${name}?`}`;
};
