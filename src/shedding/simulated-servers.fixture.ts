/** Servers in virtual time, each with a capacity that is known, and the lines of a ramp played against one. */
import type { CallLine } from "../history/line.ts";
import { arrivalTimesUs } from "../workload/arrivals.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { exponential } from "../workload/random.ts";

/** Given arrivals in order: when the answer is there, or the refusal. */
export type Server = (atUs: number, i: number) => { doneUs: number; outcome: string };

const REFUSAL_US = 800;
const refusal = (atUs: number, outcome: string) => ({ doneUs: atUs + REFUSAL_US, outcome });

/** `slots` serve at once, first come first served; beyond `inFlight` (running and waiting) calls are shed. */
export const queueing = (options: {
  slots: number;
  inFlight: number;
  serviceMs: number;
  seed?: number;
  isConstant?: boolean;
  sheds?: string;
}): Server => {
  const { slots, inFlight, serviceMs, seed = 1, isConstant = false, sheds = "429 b2b_overloaded" } = options;
  const freeAtUs = new Array<number>(slots).fill(0);
  let ends: number[] = [];
  return (atUs, i) => {
    ends = ends.filter((end) => end > atUs);
    if (ends.length >= inFlight) return refusal(atUs, sheds);
    const slot = freeAtUs.indexOf(Math.min(...freeAtUs));
    const serviceUs = 1000 * serviceMs * (isConstant ? 1 : exponential(seed, i, 77));
    const doneUs = Math.max(atUs, freeAtUs[slot] as number) + serviceUs;
    freeAtUs[slot] = doneUs;
    ends.push(doneUs);
    return { doneUs, outcome: "200" };
  };
};

/** Sheds by a limit of its own that grows while waits are short and halves when they are not. */
export const adaptive = (options: { slots: number; serviceMs: number; toleratedMs: number; seed?: number }): Server => {
  const { slots, serviceMs, toleratedMs, seed = 1 } = options;
  const freeAtUs = new Array<number>(slots).fill(0);
  let ends: number[] = [];
  let limit = slots;
  let cutAtUs = 0;
  return (atUs, i) => {
    ends = ends.filter((end) => end > atUs);
    if (ends.length >= limit) return refusal(atUs, "429 b2b_overloaded");
    const slot = freeAtUs.indexOf(Math.min(...freeAtUs));
    const waitUs = Math.max(0, (freeAtUs[slot] as number) - atUs);
    if (waitUs > toleratedMs * 1000 && atUs - cutAtUs > serviceMs * 1000) {
      limit = Math.max(slots, limit * 0.7);
      cutAtUs = atUs;
    } else limit += 1 / limit;
    const doneUs = atUs + waitUs + 1000 * serviceMs * exponential(seed, i, 78);
    freeAtUs[slot] = doneUs;
    ends.push(doneUs);
    return { doneUs, outcome: "200" };
  };
};

export const rateLimited = (ratePerS: number, burst: number, serviceMs: number): Server => {
  let tokens = burst;
  let lastUs = 0;
  return (atUs) => {
    tokens = Math.min(burst, tokens + ((atUs - lastUs) / 1e6) * ratePerS);
    lastUs = atUs;
    if (tokens < 1) return refusal(atUs, "429 rate_limited");
    tokens -= 1;
    return { doneUs: atUs + serviceMs * 1000, outcome: "200" };
  };
};

export const always = (outcome: string): Server => {
  return (atUs) => refusal(atUs, outcome);
};

/** The lines of a ramp, of which each call left when it should have. */
export const playRamp = (server: Server, ramp: Profile, seed: number, startUs = 5_000_000): CallLine[] =>
  arrivalTimesUs(ramp, "poisson", seed).map((us, i) => {
    const atUs = startUs + us;
    const { doneUs, outcome } = server(atUs, i);
    const done_us = Math.round(doneUs);
    return {
      type: "call",
      id: `r-${i}`,
      stage: "find-knee",
      driver: "simulated",
      org: "org_a",
      route: "chat.control",
      intended_us: atUs,
      started_us: atUs,
      connect_us: 0,
      sent_us: atUs,
      first_us: done_us,
      done_us,
      outcome,
      attempt: 0,
      clock_error_us: 0,
    };
  });
