/**
 * How far the deployment's clock is from ours, by the `Date` of its answers. A `Date` says the second alone, and was
 * written at some moment between sending and hearing; each answer bounds the offset on both sides, and several narrow it.
 */

export type DatedAnswer = { readonly sentMs: number; readonly heardMs: number; readonly date: string | undefined };

/** `offsetMs`: theirs minus ours; `null` where no answer has a date, or where the answers contradict each other. */
type ClockSkew =
  | { readonly offsetMs: number; readonly errorMs: number }
  | { readonly offsetMs: null; readonly why: "no date" | "contradicting" };

export const skewOf = (answers: readonly DatedAnswer[]): ClockSkew => {
  let [low, high] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY];
  let dated = 0;
  for (const { sentMs, heardMs, date } of answers) {
    const atMs = Date.parse(date ?? "");
    if (Number.isNaN(atMs)) continue;
    dated += 1;
    low = Math.max(low, atMs - heardMs);
    high = Math.min(high, atMs + 1_000 - sentMs);
  }
  if (dated === 0) return { offsetMs: null, why: "no date" };
  if (low > high) return { offsetMs: null, why: "contradicting" };
  return { offsetMs: (low + high) / 2, errorMs: (high - low) / 2 };
};
