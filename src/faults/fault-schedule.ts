/** Draws schedules of overlapping faults beside a load: number n of a seed is always the same schedule. */

import { pick, saltOf, uniform, whole } from "../workload/random.ts";
import { disablesProxy, LINK_FAULTS } from "./link-faults.ts";

export type ExploredLink = "limiter" | "keys";

export type FaultEvent = {
  link: ExploredLink;
  /** One of `LINK_FAULTS`. */
  fault: string;
  /** When the fault begins, in milliseconds from the start of the load. */
  atMs: number;
  forMs: number;
};

export type FaultSchedule = ReturnType<typeof drawSchedule>;

/** Loads that use both dependencies: reads, map loads, streams, exchanges, readers who leave. */
const LOADS: readonly { story: string; rates: readonly number[] }[] = [
  { story: "broken-dependency", rates: [15, 30, 60] },
  { story: "steady-mix", rates: [10, 20, 40] },
  { story: "session-storm", rates: [20, 60] },
  { story: "retry-storm", rates: [10, 30] },
  { story: "leaving-readers", rates: [10, 20] },
];
const LINKS: readonly ExploredLink[] = ["limiter", "keys"];
const EVENTS_MOST = 5;
const FIRST_MS = 1_000;
const BEGINS_WITHIN_MS = 4_000;
/** Shorter than the recovery deadline, so that no fault reaches into the judged recovery of an earlier one. */
const LASTS_MS = { least: 150, most: 2_500 };
/** After a heal: the recovery deadline, then (`AFTER_MS`) more load; `paceOf` lengthens both at low rates. */
export const RECOVERY_MS = 3_000;
export const AFTER_MS = 1_500;

const APART_MS = 50;

const overlaps = (a: FaultEvent, b: FaultEvent): boolean =>
  a.atMs < b.atMs + b.forMs + APART_MS && b.atMs < a.atMs + a.forMs + APART_MS;

/** Reports whether each fault can be healed alone. Of two at once that disable one proxy, a heal would end both. */
const fits = (a: FaultEvent, b: FaultEvent): boolean =>
  a.link !== b.link || !overlaps(a, b) || (a.fault !== b.fault && !(disablesProxy(a.fault) && disablesProxy(b.fault)));

const salt = (name: string): number => saltOf(`fault schedule ${name}`);

type Draw = { least: number; most: number; count: number; links: readonly ExploredLink[] };

const drawEvents = (seed: number, n: number, { least, most, count, links }: Draw): FaultEvent[] => {
  const events: FaultEvent[] = [];
  for (let at = 0; at < count; at += 1) {
    const own = (name: string): number => salt(`${name} ${at}`);
    // Squared, so that short faults are drawn more often.
    const share = uniform(seed, n, own("length")) ** 2;
    const event: FaultEvent = {
      link: pick(seed, n, own("link"), links),
      fault: pick(seed, n, own("fault"), LINK_FAULTS),
      atMs: least + whole(seed, n, own("begin"), most - least),
      forMs: Math.round(LASTS_MS.least + share * (LASTS_MS.most - LASTS_MS.least)),
    };
    if (events.every((other) => fits(event, other))) events.push(event);
  }
  return events.sort((a, b) => a.atMs - b.atMs);
};

const WINDOW_MS = 20_000;

/** Draws one or two faults per window for a load of this length. */
export const drawFaultsFor = (forMs: number, seed: number, n: number, links: readonly ExploredLink[]): FaultEvent[] =>
  Array.from({ length: Math.max(1, Math.floor(forMs / WINDOW_MS)) }, (_, window) => {
    const beginsMs = window * WINDOW_MS;
    const count = 1 + whole(seed, n, salt(`window ${window}`), 2);
    const draw = { least: beginsMs + FIRST_MS, most: beginsMs + FIRST_MS + BEGINS_WITHIN_MS, count, links };
    return drawEvents(seed, n * 1_000 + window, draw);
  }).flat();

export const drawSchedule = (seed: number, n: number) => {
  const { story, rates } = pick(seed, n, salt("load"), LOADS);
  const count = 1 + whole(seed, n, salt("count"), EVENTS_MOST);
  const draw = { least: FIRST_MS, most: FIRST_MS + BEGINS_WITHIN_MS, count, links: LINKS };
  const events = drawEvents(seed, n, draw);
  return { seed: seed + n, story, ratePerS: pick(seed, n, salt("rate"), rates), events };
};

export const durationS = ({ events }: FaultSchedule): number =>
  (Math.max(FIRST_MS, ...events.map(({ atMs, forMs }) => atMs + forMs)) + RECOVERY_MS + AFTER_MS) / 1000;

export const describeSchedule = ({ story, ratePerS, events }: FaultSchedule): string =>
  `${story} at ${ratePerS}/s; ${events
    .map(({ link, fault, atMs, forMs }) => `${link}-${fault} from ${atMs} ms for ${forMs} ms`)
    .join(", ")}`;
