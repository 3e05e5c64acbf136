/** How numbers are written for people, the same in every report: grouped counts, few digits, always a unit. */
import type { Measurement } from "../history/run-document.ts";
import { callsForInterval } from "../history/statistics/statistics.ts";

/** A whole number with a comma between thousands: `12,345`. `Intl` does the same, but takes 30 ms to load in each process. */
export const count = (n: number): string => String(Math.round(n)).replace(/\B(?=(?:\d{3})+$)/g, ",");

/** `1 call`, `2 calls`. */
export const counted = (n: number, one: string, several = `${one}s`) => `${count(n)} ${n === 1 ? one : several}`;

/** About four significant digits: enough to compare, few enough to read. */
export const figure = (value: number): string => {
  if (!Number.isFinite(value)) return "unknown";
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1000) return count(value);
  if (size < 0.0001) return value.toExponential(1);
  const text = size >= 100 ? value.toFixed(1) : value.toPrecision(3);
  return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
};

/** A share as per cent; more than nothing is never written as 0 %, less than all never as 100 %. */
export const share = (part: number, whole: number): string => {
  if (whole === 0) return "–";
  const percent = (100 * part) / whole;
  if (part > 0 && percent < 0.1) return "<0.1 %";
  if (part < whole && percent > 99.9) return ">99.9 %";
  return `${percent.toFixed(1).replace(/\.0$/, "")} %`;
};

/** `850 ms`, `12.3 s`, `4 min 05 s`, `2 h 10 min`. */
export const duration = (ms: number): string => {
  if (!Number.isFinite(ms)) return "unknown";
  if (ms < 1000) return `${figure(ms)} ms`;
  if (ms < 60_000) return `${figure(ms / 1000)} s`;
  const seconds = Math.round(ms / 1000);
  const two = (n: number): string => String(n).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${two(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${two(Math.floor((seconds % 3600) / 60))} min`;
};

/** A measurement's value with its unit; a ratio and a count have none. */
export const valueText = (m: Measurement): string => withUnit(figure(m.value), m.unit);

export const withUnit = (text: string, unit: string): string =>
  unit === "ratio" || unit === "1" || unit === "" ? text : unit === "1/s" ? `${text} /s` : `${text} ${unit}`;

export const intervalText = (m: Measurement): string | null =>
  m.low === null || m.high === null ? null : withUnit(`${figure(m.low)} to ${figure(m.high)}`, m.unit);

/** Says why a percentile has no interval; `null` if it has one, and for all that is no percentile. */
export const whyNoInterval = (m: Measurement): string | null => {
  const [, digits] = /_p(\d+)$/.exec(m.name) ?? [];
  if (digits === undefined || m.low !== null) return null;
  const needed = callsForInterval(Number(`0.${digits}`));
  return m.n < needed ? `too few: it takes ${count(needed)}` : "too few: calls of one burst are correlated";
};

/** `2026-11-21 08:00:00 UTC` for a time as in `run.json`; any other text is unchanged. */
export const moment = (at: string) => at.replace(/^(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d)(?:\.\d+)?Z$/, "$1 $2 UTC");

/** A time within a stage: `0`, `4.5 s`, `3 min`. */
export const seconds = (s: number): string => (s === 0 ? "0" : s >= 120 ? `${figure(s / 60)} min` : `${figure(s)} s`);

/** Two or three digits, in seconds from 1 s on: `0.4 ms`, `85 ms`, `1.2 s`. */
export const milliseconds = (ms: number): string => {
  const short = (n: number): string =>
    n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(n % 1 < 0.05 ? 0 : 1) : figure(Number(n.toPrecision(2)));
  return ms >= 1000 ? `${short(ms / 1000)} s` : `${short(ms)} ms`;
};

export const perSecond = (n: number): string => `${n >= 100 ? n.toFixed(0) : figure(Number(n.toPrecision(2)))}/s`;
