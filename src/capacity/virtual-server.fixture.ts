/** A server whose capacity is known from books, in virtual time: C slots, a queue up to K calls, and probes played on it. */
import { type Arrivals, constant, scheduleOf } from "../workload/load-profiles.ts";
import { exponential } from "../workload/random.ts";
import { judgeTallies, type ProbePlan, type ProbeResult, type Tally } from "./probe.ts";

export type VirtualServer = {
  slots: number;
  /** Calls that may be there at once; more than `slots` is a queue, first come first served. */
  places: number;
  serviceS: number;
  service: "constant" | "exponential";
};

type Call = { atS: number; latencyS: number | null };

/** Every call of a probe; `null` latency: refused. */
const play = (server: VirtualServer, ratePerS: number, lengthS: number, arrivals: Arrivals, seed: number): Call[] => {
  const freeAtS = new Array<number>(server.slots).fill(0);
  let endsS: number[] = [];
  const calls: Call[] = [];
  for (const at of scheduleOf(constant(ratePerS, lengthS), arrivals, seed)) {
    const atS = at / 1e6;
    if (endsS.length >= server.places) endsS = endsS.filter((end) => end > atS);
    if (endsS.length >= server.places) {
      calls.push({ atS, latencyS: null });
      continue;
    }
    const slot = freeAtS.indexOf(Math.min(...freeAtS));
    const workS = server.serviceS * (server.service === "constant" ? 1 : exponential(seed, calls.length, 0x53455256));
    const endS = Math.max(atS, freeAtS[slot] as number) + workS;
    freeAtS[slot] = endS;
    endsS.push(endS);
    calls.push({ atS, latencyS: endS - atS });
  }
  return calls;
};

export type VirtualObjective = { limit: number; isTime: boolean; isBad(latencyS: number | null): boolean | null };

export const REFUSALS = (limit: number): VirtualObjective => ({
  ...{ limit, isTime: false },
  isBad: (latencyS) => latencyS === null,
});
export const SLOWER = (thanS: number, share: number): VirtualObjective => ({
  ...{ limit: share, isTime: true },
  isBad: (latencyS) => (latencyS === null ? null : latencyS > thanS),
});

const BLOCK_S = 1;

/** A generator on a machine that nothing disturbs. */
export const CALM_GENERATOR: ProbeResult["generator"] = {
  ...{ lagMsP99: 1, dropped: 0, queued: 0, unmade: 0 },
  ...{ cpuShare: 0.1, stealShare: 0, throttledShare: 0, othersShare: 0, notes: [] },
};

/** Plays a plan as a runner would, early end included. */
export const playVirtually = (
  server: VirtualServer,
  plan: ProbePlan,
  objectives: readonly VirtualObjective[],
  seed: number,
  arrivals: Arrivals = "poisson",
): ProbeResult => {
  const all = play(server, plan.ratePerS, plan.warmUpS + plan.playS, arrivals, seed);
  const calls = all.filter(({ atS }) => atS >= plan.warmUpS);
  const tallies = objectives.map(({ isTime }) => ({ bad: 0, n: 0, blocks: [] as Tally[], isTime }));
  const limits = objectives.map(({ limit }) => limit);
  let playedS = plan.playS;
  let counted = 0;
  let refused = 0;
  for (const { atS, latencyS } of calls) {
    counted += 1;
    if (latencyS === null) refused += 1;
    for (const [at, { isBad }] of objectives.entries()) {
      const bad = isBad(latencyS);
      if (bad === null) continue;
      const tally = tallies[at]!;
      const blockAt = Math.floor((atS - plan.warmUpS) / BLOCK_S);
      const block = tally.blocks[blockAt] ?? { bad: 0, n: 0 };
      tally.blocks[blockAt] = block;
      for (const each of [tally, block]) {
        each.n += 1;
        if (bad) each.bad += 1;
      }
    }
    if (plan.mayStopEarly && counted % 16 === 0 && judgeTallies(tallies, limits, plan.dispersions) !== "open") {
      playedS = atS - plan.warmUpS;
      break;
    }
  }
  const latencies = calls.flatMap(({ latencyS }) => latencyS ?? []).sort((a, b) => a - b);
  return {
    plan,
    playedS,
    calls: counted,
    tallies: tallies.map((tally) => ({ ...tally, blocks: tally.blocks.filter((block) => block !== undefined) })),
    outcomes: { "200": counted - refused, ...(refused > 0 ? { "429 b2b_overloaded": refused } : {}) },
    latencyMsP50: latencies.length === 0 ? null : 1000 * (latencies[latencies.length >> 1] as number),
    generator: CALM_GENERATOR,
  };
};
