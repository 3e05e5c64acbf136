/** How counts and lists stand in a sentence. */

/** `1 rule`, `2 rules`. Reports, which group thousands, have their own in report/figures.ts. */
export const counted = (n: number, what: string): string => `${n} ${what}${n === 1 ? "" : "s"}`;

/** The first of a list, and how many more there are: `a, b and 3 more`. */
export const someOf = (all: readonly string[], most: number): string =>
  all.slice(0, most).join(", ") + (all.length > most ? ` and ${all.length - most} more` : "");
