/** Servers in virtual time, each with a capacity that is known, and the lines of a ramp played against one. */
import type { CallLine } from "../history/line.ts";
import { arrivalTimesUs } from "../workload/arrivals.ts";
import type { Profile } from "../workload/load-profiles.ts";
import { exponential } from "../workload/random.ts";

/** Given arrivals in order: when the answer is there, or the refusal. */
export type Server = (atUs: number, i: number) => { doneUs: number; outcome: string; firstEventUs?: number };

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

export type CappedServer = {
  /** In order of time; a read holds its place for a millisecond. */
  send(atUs: number, kind: "stream" | "read"): CallLine;
};

type Replica = { cap: number; slots?: number };

/** Replicas of fixed caps behind a balancer, with streams of `stayMs` each, as a caller of one organization sees them. */
export const capped = (options: {
  replicas: readonly Replica[];
  /** The replica of the n-th call; in turn where absent. */
  route?: (n: number, loads: readonly number[]) => number;
  stayMs: (n: number) => number;
  outcome?: string;
  /** Places that others hold at a moment, of each replica. */
  others?: (atUs: number) => number;
  /** A limit that moves, in place of the caps. */
  capAt?: (atUs: number) => number;
  /** An edge holds each answer back until it is whole. */
  buffers?: boolean;
  wayUs?: number;
}): CappedServer => {
  const { replicas, stayMs, outcome = "429 b2b_overloaded", others = () => 0, capAt, wayUs = 800 } = options;
  const route = options.route ?? ((n: number) => n % replicas.length);
  const ends = replicas.map((): number[] => []);
  let n = 0;
  return {
    send: (atUs, kind) => {
      const hereUs = atUs + wayUs / 2;
      for (const [k, held] of ends.entries()) ends[k] = held.filter((end) => end > hereUs);
      const at = route(
        n,
        ends.map(({ length }) => length),
      );
      const held = ends[at] as number[];
      const { cap, slots = Number.POSITIVE_INFINITY } = replicas[at] as Replica;
      const line = (came: string, firstUs: number, eventUs: number, doneUs: number): CallLine => ({
        type: "call",
        id: `f-${n}`,
        stage: "find-limits",
        driver: "simulated",
        org: "org_a",
        route: kind === "stream" ? "chat.control" : "design.styles",
        intended_us: atUs,
        started_us: atUs,
        connect_us: 0,
        sent_us: atUs,
        first_us: (options.buffers === true ? doneUs : firstUs) + wayUs / 2,
        ...(kind === "stream" && came === "200" ? { first_event_us: eventUs + wayUs / 2 } : {}),
        done_us: doneUs + wayUs / 2,
        outcome: came,
        attempt: 0,
        clock_error_us: 0,
      });
      n += 1;
      if (held.length + others(hereUs) >= (capAt?.(hereUs) ?? cap)) return line(outcome, hereUs, hereUs, hereUs);
      const stayUs = kind === "read" ? 1_000 : stayMs(n) * 1000;
      const beginsUs = held.length < slots ? hereUs : (held.toSorted((a, b) => a - b).at(-slots) as number);
      held.push(beginsUs + stayUs);
      return line("200", hereUs, beginsUs + Math.min(stayUs / 20, 10_000), beginsUs + stayUs);
    },
  };
};

/** Climbs as `doctor --find-limits` does: most of the streams at once, then one by one until some are shed. */
export const playClimbs = (
  server: CappedServer,
  { base, rounds = 8, sheds = 6, ofReads = 0 }: { base: number; rounds?: number; sheds?: number; ofReads?: number },
): CallLine[] => {
  const lines: CallLine[] = [];
  let nowUs = 1_000_000;
  const send = (kind: "stream" | "read"): CallLine => {
    const sent = server.send(nowUs, kind);
    lines.push(sent);
    return sent;
  };
  for (let round = 0; round < rounds; round += 1) {
    const reads = ofReads === 0 ? 0 : round % (ofReads + 1);
    for (let k = 0; k < base; k += 1) {
      send("stream");
      nowUs += 1_000;
      for (let r = 0; r < reads; r += 1) send("read");
    }
    nowUs += 10_000;
    let shed = 0;
    for (let step = 0; step < 80 && shed < sheds; step += 1) {
      if (send("stream").outcome !== "200") shed += 1;
      nowUs += 2_500;
      for (let r = 0; r < reads; r += 1) {
        send("read");
        nowUs += 2_500;
      }
    }
    nowUs = Math.max(...lines.map(({ done_us }) => done_us)) + 500_000;
  }
  return lines;
};
