/**
 * An access log as a load profile: when calls came, and nothing else of it. Addresses, users, paths and queries are not kept
 * anywhere; what a call asks for and as whom is the scenario's affair. So a log may be replayed that must not be shown.
 */
import type { Profile } from "./load-profiles.ts";

type LogRead = {
  /** Milliseconds since 1970, ascending. */
  readonly atMs: readonly number[];
  /** Lines without a time that could be read. */
  readonly skipped: number;
};

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/** `[10/Oct/2000:13:55:36 -0700]`, of Apache, nginx and many balancers. */
const COMMON = /\[(\d{2})\/(\w{3})\/(\d{4}):(\d{2}):(\d{2}):(\d{2})(\.\d+)? ([+-])(\d{2})(\d{2})\]/;
const ISO = /\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}:\d{2}(?:[.,]\d+)?(?:Z|[+-]\d{2}:?\d{2})?/;
/** Members of a JSON line that hold its time, in the order in which they are looked for. */
const MEMBERS = ["time", "timestamp", "@timestamp", "ts", "date", "start_time", "time_iso8601", "msec"];

const commonMs = (line: string): number | null => {
  const found = COMMON.exec(line);
  if (found === null) return null;
  const [, day, month, year, hour, minute, second, fraction = "", sign, zoneHours, zoneMinutes] = found;
  const at = MONTHS.indexOf((month as string).toLowerCase());
  if (at < 0) return null;
  const local = Date.UTC(Number(year), at, Number(day), Number(hour), Number(minute), Number(second));
  const zoneMs = (Number(zoneHours) * 60 + Number(zoneMinutes)) * 60_000;
  return local + Number(`0${fraction}`) * 1000 + (sign === "+" ? -zoneMs : zoneMs);
};

const isoMs = (line: string): number | null => {
  const found = ISO.exec(line)?.[0];
  if (found === undefined) return null;
  const text = found.replace(" ", "T").replace(",", ".");
  // Without a zone all lines are in the same one, whichever it is.
  const ms = Date.parse(/(?:Z|[+-]\d{2}:?\d{2})$/.test(text) ? text : `${text}Z`);
  return Number.isNaN(ms) ? null : ms;
};

/** Seconds, milliseconds, microseconds or nanoseconds since 1970, by their size. */
const numberMs = (value: number): number | null => {
  if (!(value > 1e8)) return null;
  if (value < 1e11) return value * 1000;
  if (value < 1e14) return value;
  return value < 1e17 ? value / 1e3 : value / 1e6;
};

const memberMs = (line: string): number | null => {
  let fields: Record<string, unknown>;
  try {
    fields = JSON.parse(line) as Record<string, unknown>;
  } catch {
    return null;
  }
  for (const name of MEMBERS) {
    const value = fields[name];
    if (typeof value === "number") return numberMs(value);
    if (typeof value === "string") return commonMs(value) ?? isoMs(value) ?? numberMs(Number(value));
  }
  return null;
};

/** Log lines by Apache or nginx, JSON lines with a member such as `time` or `ts`, or any line with an ISO 8601 time in it. */
export const readAccessLog = (text: string): LogRead => {
  const atMs: number[] = [];
  let skipped = 0;
  for (const line of text.split("\n")) {
    if (line.trim() === "") continue;
    const ms = line.startsWith("{")
      ? memberMs(line)
      : (commonMs(line) ?? isoMs(line) ?? numberMs(Number.parseFloat(line)));
    if (ms === null) skipped += 1;
    else atMs.push(ms);
  }
  return { atMs: atMs.sort((a, b) => a - b), skipped };
};

/** Many logs know whole seconds alone: calls of one second are spread evenly over it, or all would come at once. */
const spread = (atMs: readonly number[]): number[] => {
  if (atMs.some((ms) => ms % 1000 !== 0)) return [...atMs];
  const perSecond = new Map<number, number>();
  for (const ms of atMs) perSecond.set(ms, (perSecond.get(ms) ?? 0) + 1);
  const given = new Map<number, number>();
  return atMs.map((ms) => {
    const k = given.get(ms) ?? 0;
    given.set(ms, k + 1);
    return ms + ((k + 0.5) * 1000) / (perSecond.get(ms) as number);
  });
};

type TraceWish = {
  /** Calls per second on average; the trace's own where it is absent. */
  readonly ratePerS?: number;
  /** Only so much of the replay; all of it where it is absent. */
  readonly durationS?: number;
};

/** The same calls one after the other as in the log, in time that runs as fast as is wished. */
export const traceProfile = (atMs: readonly number[], { ratePerS, durationS }: TraceWish = {}): Profile => {
  const spreadMs = spread(atMs);
  const firstMs = spreadMs[0] ?? 0;
  const wholeS = ((spreadMs.at(-1) ?? firstMs) - firstMs) / 1000;
  const ownPerS = wholeS > 0 ? (spreadMs.length - 1) / wholeS : 1;
  const factor = (ratePerS ?? ownPerS) / ownPerS;
  const most = durationS === undefined ? Number.POSITIVE_INFINITY : durationS * 1e6;
  const momentsUs = spreadMs.map((ms) => Math.round(((ms - firstMs) * 1000) / factor)).filter((us) => us < most);
  const counts = Array.from({ length: Math.floor((momentsUs.at(-1) ?? -1) / 1e6) + 1 }, () => 0);
  for (const us of momentsUs) counts[Math.floor(us / 1e6)]! += 1;
  return {
    name: "replay",
    pieces: counts.map((count) => ({ from: count, to: count, durationS: 1 })),
    momentsUs,
  };
};
