/** How numbers are written on charts: short, since there is little room. */
import { figure } from "../figures.ts";

export const seconds = (s: number): string => (s === 0 ? "0" : s >= 120 ? `${figure(s / 60)} min` : `${figure(s)} s`);

/** Two or three digits, with the unit that needs the fewest: `0.4 ms`, `85 ms`, `1.2 s`. */
export const milliseconds = (ms: number): string => {
  const short = (n: number): string =>
    n >= 100 ? n.toFixed(0) : n >= 10 ? n.toFixed(n % 1 < 0.05 ? 0 : 1) : figure(Number(n.toPrecision(2)));
  return ms >= 1000 ? `${short(ms / 1000)} s` : `${short(ms)} ms`;
};

export const perSecond = (n: number): string => `${n >= 100 ? n.toFixed(0) : figure(Number(n.toPrecision(2)))}/s`;
