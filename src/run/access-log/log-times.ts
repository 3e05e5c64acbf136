/** The ways in which access logs write a moment. A reader returns `null` for what is no such moment: nothing is guessed. */

/** `zoned`: the text states its zone; without one it is taken as UTC. */
export type Moment = { readonly ms: number; readonly zoned: boolean };

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

/** For the expressions of log-formats.ts: the date of the Common Log Format, that of HAProxy, that of ISO 8601 and RFC 3339. */
export const CLF = String.raw`\d{2}\/[A-Za-z]{3}\/\d{4}:\d{2}:\d{2}:\d{2}(?:\.\d{1,9})? [+-]\d{4}`;
export const CLF_WITHOUT_ZONE = String.raw`\d{2}\/[A-Za-z]{3}\/\d{4}:\d{2}:\d{2}:\d{2}(?:\.\d{1,9})?`;
export const ISO = String.raw`\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d{1,9})?(?:Z|[+-]\d{2}:?\d{2})?`;

const CLF_PARTS = /^(\d\d)\/([A-Za-z]{3})\/(\d{4}):(\d\d):(\d\d):(\d\d)(\.\d{1,9})?(?: ([+-])(\d\d)(\d\d))?$/;
const ISO_PARTS = /^(\d{4})-(\d\d)-(\d\d)[T \t](\d\d):(\d\d):(\d\d)(?:[.,](\d{1,9}))?(?:(Z)|([+-])(\d\d):?(\d\d))?$/;

/** `null` where the calendar or the clock has no such moment; `Date.UTC` would carry it over. 60 is a leap second. */
const utcMs = (year: number, month: number, day: number, hour: number, minute: number, second: number) => {
  if (hour > 23 || minute > 59 || second > 60) return null;
  const dayMs = Date.UTC(year, month, day);
  const date = new Date(dayMs);
  if (date.getUTCMonth() !== month || date.getUTCDate() !== day) return null;
  return dayMs + (hour * 3600 + minute * 60 + second) * 1000;
};

const zoneMs = (sign: string | undefined, hours: string | undefined, minutes: string | undefined): number =>
  (sign === "-" ? -1 : 1) * (Number(hours) * 60 + Number(minutes)) * 60_000;

/** `10/Oct/2000:13:55:36 -0700`; HAProxy writes it with milliseconds and without a zone. */
export const clfMoment = (text: string): Moment | null => {
  const parts = CLF_PARTS.exec(text);
  if (parts === null) return null;
  const [, day, month, year, hour, minute, second, fraction, sign, zoneHours, zoneMinutes] = parts;
  const at = MONTHS.indexOf((month as string).toLowerCase());
  const local = at < 0 ? null : utcMs(Number(year), at, Number(day), Number(hour), Number(minute), Number(second));
  if (local === null) return null;
  const ms = local + Number(`0${fraction ?? ""}`) * 1000;
  return sign === undefined ? { ms, zoned: false } : { ms: ms - zoneMs(sign, zoneHours, zoneMinutes), zoned: true };
};

/** `2026-10-10T20:55:36.250Z`, with a blank for the `T`, with a comma for the point, with or without a zone. */
export const isoMoment = (text: string): Moment | null => {
  const parts = ISO_PARTS.exec(text);
  if (parts === null) return null;
  const [, year, month, day, hour, minute, second, fraction, utc, sign, zoneHours, zoneMinutes] = parts;
  const local = utcMs(Number(year), Number(month) - 1, Number(day), Number(hour), Number(minute), Number(second));
  if (local === null) return null;
  const ms = local + (fraction === undefined ? 0 : Number(`0.${fraction}`) * 1000);
  if (utc !== undefined) return { ms, zoned: true };
  return sign === undefined ? { ms, zoned: false } : { ms: ms - zoneMs(sign, zoneHours, zoneMinutes), zoned: true };
};

const UNIT_MS = { s: 1000, ms: 1, us: 1e-3, ns: 1e-6 } as const;
export type EpochUnit = keyof typeof UNIT_MS;

/** An epoch outside of these years is an id or a counter. */
const EPOCH_FROM_MS = Date.UTC(2000, 0);
const EPOCH_TO_MS = Date.UTC(2100, 0);

/** A number of `unit`s since 1970. */
export const epochMoment = (value: number, unit: EpochUnit): Moment | null => {
  const ms = value * UNIT_MS[unit];
  return ms >= EPOCH_FROM_MS && ms < EPOCH_TO_MS ? { ms, zoned: true } : null;
};

/** A number since 1970 in a field that is known to hold a moment: in these years only one unit fits. */
const epochOfAnyUnit = (value: number): Moment | null =>
  epochMoment(value, "s") ?? epochMoment(value, "ms") ?? epochMoment(value, "us") ?? epochMoment(value, "ns");

const NUMBER = /^\d{9,19}(?:\.\d+)?$/;

/** The moment of a field that is known to hold one, in whichever way it is written. */
export const momentOf = (value: unknown): Moment | null => {
  if (typeof value === "number") return epochOfAnyUnit(value);
  if (typeof value !== "string" || value.length > 64) return null;
  const text = value.replace(/^\[|\]$/g, "");
  return isoMoment(text) ?? clfMoment(text) ?? (NUMBER.test(text) ? epochOfAnyUnit(Number(text)) : null);
};

/** The moment at the beginning of a text, in brackets or quotes too; what follows it is another field. */
const AT_START = new RegExp(`^[["']?(${ISO}|${CLF}|${CLF_WITHOUT_ZONE}|\\d{9,19}(?:\\.\\d+)?)(?=$|[\\s\\]"',;|])`);
export const momentAtStart = (text: string): Moment | null => momentOf(AT_START.exec(text)?.[1]);
