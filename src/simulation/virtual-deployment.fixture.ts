/**
 * A deployment with fixed slots and no queue in virtual time: calls find a slot or are shed, and what a shared machine adds is a
 * seeded noise in place of sockets. Takes milliseconds for what takes minutes on a clock, so a design of comparisons can be
 * tried hundreds of times.
 */
import type { CallLine } from "../history/line.ts";
import { exponential, saltOf, uniform } from "../workload/random.ts";

/** What a call takes beside its service: on average, and now and then. */
type HostNoise = { overheadMs: number; hiccupMs: number; hiccupShare: number };

/** Like two busy cores. */
const BUSY_HOST: HostNoise = { overheadMs: 2, hiccupMs: 15, hiccupShare: 0.01 };

export type VirtualDeployment = {
  /** Makes its noise its own. */
  name: string;
  slots: number;
  /** Of the n-th call that it serves, in milliseconds. */
  serviceMs(n: number): number;
  noise?: HostNoise;
  /** Calls in every this many that keep their slot for good; none where absent. */
  leaksEvery?: number;
};

const overheadOf = (noise: HostNoise, name: string) => {
  const [hiccups, overheads] = [saltOf(`hiccup ${name}`), saltOf(`overhead ${name}`)];
  return (seed: number, n: number): number => {
    const hiccup = uniform(seed, n, hiccups) < noise.hiccupShare ? noise.hiccupMs : 0;
    return (noise.overheadMs + hiccup) * exponential(seed, n, overheads);
  };
};

/** Plays arrivals (microseconds of the run, ascending); slots and served calls are kept from one play to the next. */
export const openVirtualDeployment = (deployment: VirtualDeployment) => {
  const { name, slots, serviceMs, noise = BUSY_HOST, leaksEvery } = deployment;
  const overheadMs = overheadOf(noise, name);
  let running: number[] = [];
  let leaked = 0;
  let served = 0;
  return (arrivalsUs: readonly number[], seed: number, stage = "gate"): CallLine[] =>
    arrivalsUs.map((atUs, n) => {
      running = running.filter((endUs) => endUs > atUs);
      const isShed = running.length + leaked >= slots;
      const tookMs = isShed ? 0 : serviceMs(served);
      const doneUs = Math.round(atUs + (tookMs + overheadMs(seed, n)) * 1000);
      if (!isShed) {
        served += 1;
        running.push(doneUs);
        if (leaksEvery !== undefined && served % leaksEvery === 0) leaked += 1;
      }
      return {
        type: "call",
        id: `${name}-${n}`,
        stage,
        driver: "virtual",
        org: "org_t1",
        route: "chat.control",
        intended_us: atUs,
        started_us: atUs,
        connect_us: 0,
        sent_us: atUs,
        first_us: null,
        done_us: doneUs,
        attempt: 0,
        clock_error_us: 0,
        outcome: isShed ? "429 b2b_overloaded" : "200",
      };
    });
};
