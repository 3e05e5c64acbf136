/** Servers in virtual time whose state an overload changes, and callers who retry. */
import { Heap } from "../history/heap.ts";
import type { CallLine } from "../history/line.ts";
import { arrivalTimesUs, type Profile } from "../workload/load-profiles.ts";
import { exponential, uniform } from "../workload/random.ts";
import { queueing, type Server } from "./simulated-servers.fixture.ts";

export const STORM_STARTS_US = 5_000_000;
const SHED = "429 b2b_overloaded";
const REFUSAL_US = 800;
const refused = (atUs: number) => ({ doneUs: atUs + REFUSAL_US, outcome: SHED });
const RETRIES = 3;

type Tried = { atUs: number; i: number; attempt: number };

/** Every second caller comes back at once, the others after a second or so; none more than three times. */
export const playStorm = (server: Server, profile: Profile, seed: number, stage = "retry-storm"): CallLine[] => {
  const due = new Heap<Tried>();
  const add = (tried: Tried): void => due.push(tried.atUs, tried);
  for (const [i, us] of arrivalTimesUs(profile, "poisson", seed).entries()) {
    add({ atUs: STORM_STARTS_US + us, i, attempt: 0 });
  }
  const lines: CallLine[] = [];
  for (let next = due.pop(); next !== undefined; next = due.pop()) {
    const { atUs, i, attempt } = next;
    const { doneUs, outcome, firstEventUs } = server(atUs, i * (RETRIES + 1) + attempt);
    const done_us = Math.round(doneUs);
    lines.push({
      ...{ type: "call", id: `s-${i}-${attempt}`, stage, driver: "simulated", org: "org_a", route: "chat.control" },
      ...{ intended_us: atUs, started_us: atUs, connect_us: 0, sent_us: atUs, first_us: done_us, done_us },
      ...{ outcome, attempt, clock_error_us: 0 },
      ...(firstEventUs === undefined ? {} : { first_event_us: firstEventUs }),
    });
    if (outcome !== SHED || attempt === RETRIES) continue;
    const waitUs = i % 2 === 0 ? 1e6 * (1 + 0.5 * uniform(seed, i, attempt)) : 0;
    add({ atUs: done_us + waitUs, i, attempt: attempt + 1 });
  }
  return lines;
};

/** 80 calls a second; `inFlight` above 24 waits. */
export const healthy = (seed: number, inFlight = 24): Server => queueing({ slots: 24, inFlight, serviceMs: 300, seed });

/** Refuses whatever comes from one moment to another. */
export const refusing =
  (fromUs: number, toUs: number) =>
  (seed: number): Server => {
    const inner = healthy(seed);
    return (us, i) => (us >= fromUs && us < toUs ? refused(us) : inner(us, i));
  };

/** Serves one call in ten once more than `fromPerS` came in a second, until fewer than `untilPerS` do; 0: for ever. */
export const collapsing =
  (fromPerS: number, untilPerS: number) =>
  (seed: number): Server => {
    const inner = healthy(seed);
    const came: number[] = [];
    let oldest = 0;
    let isBroken = false;
    return (us, i) => {
      came.push(us);
      while ((came[oldest] as number) <= us - 1e6) oldest += 1;
      const perS = came.length - oldest;
      if (perS > fromPerS) isBroken = true;
      if (perS < untilPerS) isBroken = false;
      return isBroken && uniform(seed, i, 5) > 0.1 ? refused(us) : inner(us, i);
    };
  };

/** Lets everything in for a while, and answers late. */
export const lateFrom =
  (fromUs: number, toUs: number) =>
  (seed: number): Server => {
    const inner = healthy(seed);
    return (us, i) => {
      const answer = inner(us, i);
      return us >= fromUs && us < toUs ? { doneUs: us + 8e6, outcome: "200" } : answer;
    };
  };

/** Others send 70 calls a second whenever `doThey`. */
export const shared =
  (doThey: (atUs: number) => boolean) =>
  (seed: number): Server => {
    const inner = healthy(seed);
    let next = STORM_STARTS_US;
    let n = 0;
    return (us, i) => {
      for (; next < us; next += (1e6 * exponential(seed, n, 9)) / 70) {
        n += 1;
        if (doThey(next)) inner(next, 1e7 + n);
      }
      return inner(us, i);
    };
  };
