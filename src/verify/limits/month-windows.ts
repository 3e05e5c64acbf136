/**
 * Which month a mint counts in (items 10, 229). Where a month begins is a gap of the specification: it is midnight in some time
 * zone, and which one is not stated. Around the first of a month every quarter of an hour is midnight somewhere, so what falls on
 * both sides of one may belong to two months. Clocks differ a little as well.
 */

export type MintSeen = { sentMs: number; doneMs: number; admitted: boolean };

const CLOCKS_DIFFER_MS = 5_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** Time zones lie between UTC-12 and UTC+14, in steps of a quarter of an hour. */
const EARLIEST_MS = 14 * HOUR_MS;
const SPAN_MS = EARLIEST_MS + 12 * HOUR_MS;
const STEP_MS = HOUR_MS / 4;

/** How long ago the last month began where it began first, ms. */
const sinceTurnMs = (ms: number): number => {
  const there = new Date(ms + EARLIEST_MS);
  return there.getTime() - Date.UTC(there.getUTCFullYear(), there.getUTCMonth());
};

/** Moments with the same window are in the same month in every time zone. */
export const windowOf = (ms: number): string => {
  const month = new Date(ms + EARLIEST_MS).toISOString().slice(0, 7);
  const sinceMs = sinceTurnMs(ms);
  return sinceMs >= SPAN_MS ? month : `${month}+${Math.floor(sinceMs / STEP_MS)}`;
};

/** Whether a month began somewhere today or yesterday: what was used up may be there again. */
export const monthIsNew = (ms: number): boolean => sinceTurnMs(ms) < SPAN_MS + DAY_MS;

const windowsOf = ({ sentMs, doneMs }: { sentMs: number; doneMs: number }): [string, string] => [
  windowOf(sentMs - CLOCKS_DIFFER_MS),
  windowOf(doneMs + CLOCKS_DIFFER_MS),
];

/** The least that was admitted in each window: a mint at an edge may belong to either side, and counts for neither. */
export const admittedByWindow = (mints: readonly MintSeen[]): Map<string, number> => {
  const counts = new Map<string, number>();
  for (const mint of mints) {
    const [from, to] = windowsOf(mint);
    if (mint.admitted && from === to) counts.set(from, (counts.get(from) ?? 0) + 1);
  }
  return counts;
};

/** Whether all of it, and whatever else was sent until `untilMs`, surely fell into one month. */
export const inOneWindow = (mints: readonly { sentMs: number; doneMs: number }[], untilMs: number): boolean => {
  const until = mints.map(({ sentMs }) => ({ sentMs, doneMs: untilMs }));
  return new Set([...mints, ...until].flatMap(windowsOf)).size <= 1;
};
