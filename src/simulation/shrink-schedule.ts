/**
 * The shortest schedule that still fails: events are left out (delta debugging, Zeller and Hildebrandt, "Simplifying and
 * isolating failure-inducing input", 2002), then what is left is made shorter and its load lighter, until nothing more can
 * be taken away. What fails is asked of the caller, who decides how often a schedule has to fail to count.
 */
import type { FaultEvent, FaultSchedule } from "./fault-schedule.ts";

const SHORTEST_MS = 100;
const LIGHTEST_PER_S = 5;

type Fails = (schedule: FaultSchedule) => Promise<boolean>;

/** Leaves out as many events as can be: halves first, then smaller parts, then single ones. */
const fewest = async (schedule: FaultSchedule, fails: Fails): Promise<FaultSchedule> => {
  let kept = schedule.events;
  for (let parts = 2; kept.length > 1; ) {
    const size = Math.ceil(kept.length / parts);
    let smaller: FaultEvent[] | null = null;
    for (let at = 0; at < kept.length && smaller === null; at += size) {
      const rest = [...kept.slice(0, at), ...kept.slice(at + size)];
      if (rest.length > 0 && (await fails({ ...schedule, events: rest }))) smaller = rest;
    }
    if (smaller !== null) {
      kept = smaller;
      parts = Math.max(2, parts - 1);
    } else if (size === 1) break;
    else parts = Math.min(kept.length, parts * 2);
  }
  return { ...schedule, events: kept };
};

/** What could be simpler, one change each. */
const simpler = (schedule: FaultSchedule): FaultSchedule[] => {
  const { events, ratePerS } = schedule;
  const changed: FaultSchedule[] = events.flatMap((event, at) => {
    const forMs = Math.round(event.forMs / 2);
    if (forMs < SHORTEST_MS) return [];
    return [{ ...schedule, events: events.map((other, i) => (i === at ? { ...other, forMs } : other)) }];
  });
  const slower = Math.round(ratePerS / 2);
  if (slower >= LIGHTEST_PER_S) changed.push({ ...schedule, ratePerS: slower });
  return changed;
};

/** `fails` is asked at most `trialsMost` times; what is known by then is the answer. */
export const shrinkSchedule = async (
  schedule: FaultSchedule,
  fails: Fails,
  trialsMost: number,
): Promise<FaultSchedule> => {
  let left = trialsMost;
  const asked: Fails = async (one) => left-- > 0 && (await fails(one));
  let smallest = await fewest(schedule, asked);
  for (let found = true; found; ) {
    found = false;
    for (const candidate of simpler(smallest)) {
      if (!(await asked(candidate))) continue;
      smallest = candidate;
      found = true;
      break;
    }
  }
  return smallest;
};
