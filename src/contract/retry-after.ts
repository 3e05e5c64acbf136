/**
 * Reads `Retry-After` (RFC 9110, 10.2.3): whole seconds, or an HTTP date in the three forms of 5.6.7; all else (`1.5`,
 * `-1`, `1, 2`) is not usable. `Date.parse` would take `1.5` for a day in January.
 */

const MONTHS = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAY_NAME = "(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)";
const LONG_DAY_NAME = "(?:Mon|Tues|Wednes|Thurs|Fri|Satur|Sun)day";
const MONTH = `(${MONTHS.join("|")})`;
const TIME = "(\\d\\d):(\\d\\d):(\\d\\d)";

/** With the places of day, month, year, hour, minute and second. */
const FORMS: readonly (readonly [form: RegExp, places: readonly number[]])[] = [
  // IMF-fixdate is the current form; those of RFC 850 and asctime are obsolete.
  [new RegExp(`^${DAY_NAME}, (\\d\\d) ${MONTH} (\\d{4}) ${TIME} GMT$`), [1, 2, 3, 4, 5, 6]],
  [new RegExp(`^${LONG_DAY_NAME}, (\\d\\d)-${MONTH}-(\\d\\d) ${TIME} GMT$`), [1, 2, 3, 4, 5, 6]],
  [new RegExp(`^${DAY_NAME} ${MONTH} ([ \\d]\\d) ${TIME} (\\d{4})$`), [2, 1, 6, 3, 4, 5]],
];

/** A year of two digits is never more than 50 years ahead. */
const fullYear = (digits: string, nowMs: number): number => {
  if (digits.length > 2) return Number(digits);
  const thisYear = new Date(nowMs).getUTCFullYear();
  const year = Math.floor(thisYear / 100) * 100 + Number(digits);
  return year > thisYear + 50 ? year - 100 : year;
};

const dateMs = (text: string, nowMs: number): number | null => {
  for (const [form, places] of FORMS) {
    const found = form.exec(text);
    if (found === null) continue;
    const [days = "", name = "", years = "", ...times] = places.map((place) => found[place] as string);
    const [day, hour = 0, minute = 0, second = 0] = [days, ...times].map(Number) as [number, ...number[]];
    const month = MONTHS.indexOf(name);
    const year = fullYear(years, nowMs);
    // `Date.UTC` would turn 31 February into 3 March. 60 is a leap second.
    const lastDay = new Date(Date.UTC(year, month + 1, 0)).getUTCDate();
    const isReal = day >= 1 && day <= lastDay && hour < 24 && minute < 60 && second <= 60;
    return isReal ? Date.UTC(year, month, day, hour, minute, second) : null;
  }
  return null;
};

/** The header's value, or `null` if it is not usable. `nowMs` gives the century of a two-digit year. */
export const readRetryAfter = (text: string, nowMs: number): { seconds: number } | { atMs: number } | null => {
  const trimmed = text.replace(/^[ \t]+|[ \t]+$/g, "");
  if (/^\d+$/.test(trimmed)) return { seconds: Number(trimmed) };
  const atMs = dateMs(trimmed, nowMs);
  return atMs === null ? null : { atMs };
};

/** The wait in milliseconds from `nowMs`, 0 for a past date, `undefined` if the header is not usable. */
export const statedWaitMs = (text: string, nowMs: number): number | undefined => {
  const read = readRetryAfter(text, nowMs);
  if (read === null) return undefined;
  const ms = "seconds" in read ? read.seconds * 1000 : Math.max(0, read.atMs - nowMs);
  return Math.min(ms, Number.MAX_SAFE_INTEGER);
};
