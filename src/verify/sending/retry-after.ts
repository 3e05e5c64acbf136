/** `Retry-After` as RFC 9110 has it: seconds, or a date. */

/** Milliseconds to wait from `nowMs` on; `undefined` for what is neither. */
export const retryAfterMs = (text: string, nowMs: number): number | undefined => {
  const trimmed = text.trim();
  if (/^\d{1,9}$/.test(trimmed)) return Number(trimmed) * 1000;
  // IMF-fixdate and the two obsolete forms all begin with the name of a day.
  if (!/^(Mon|Tue|Wed|Thu|Fri|Sat|Sun)/.test(trimmed)) return undefined;
  const atMs = Date.parse(trimmed);
  return Number.isNaN(atMs) ? undefined : Math.max(0, atMs - nowMs);
};
