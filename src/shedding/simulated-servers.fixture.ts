/** Servers in virtual time, each with a capacity that is known, and the lines of a load played against one. */
import type { CallLine } from "../history/line.ts";
import { arrivalTimesUs, type Profile } from "../workload/load-profiles.ts";
import { exponential, uniform } from "../workload/random.ts";

type Answer = { doneUs: number; outcome: string; firstEventUs?: number; isCut?: true };

/** When every schedule begins. */
export const START_US = 5_000_000;
/** What each server of `HONEST`, and of `FAULTY` while it is well, completes. */
export const KNEE_PER_S = 80;
export const ORGANIZATIONS = 8;

/** Given arrivals in order: when the answer is there, or the refusal. `org`: the number of the caller's organization. */
export type Server = (atUs: number, i: number, org?: number) => Answer;

const REFUSAL_US = 800;
const SHED = "429 b2b_overloaded";
const refusal = (atUs: number, outcome = SHED, us = REFUSAL_US): Answer => ({ doneUs: atUs + us, outcome });

/** Service times around 1. */
export type Service = "constant" | "exponential" | "lognormal";
const LOG_SD = 1;
export const serviceOf = (kind: Service, seed: number, i: number): number => {
  if (kind === "constant") return 1;
  if (kind === "exponential") return exponential(seed, i, 77);
  const normal = Math.sqrt(-2 * Math.log(1 - uniform(seed, i, 78))) * Math.cos(2 * Math.PI * uniform(seed, i, 79));
  return Math.exp(LOG_SD * normal - LOG_SD ** 2 / 2);
};

/** What a server has in hand: calls in flight, and slots that serve first come, first served. */
class Pool {
  readonly #freeAtUs: number[];
  #ends: { us: number; org: number }[] = [];

  constructor(slots: number) {
    this.#freeAtUs = new Array<number>(slots).fill(0);
  }

  get slots(): number {
    return this.#freeAtUs.length;
  }

  /** More slots, or fewer: the ones that are free first go. */
  resize(slots: number, atUs: number): void {
    while (this.#freeAtUs.length < slots) this.#freeAtUs.push(atUs);
    this.#freeAtUs.length = slots;
  }

  inFlight(atUs: number, org?: number): number {
    if (this.#ends.some(({ us }) => us <= atUs)) this.#ends = this.#ends.filter(({ us }) => us > atUs);
    return org === undefined ? this.#ends.length : this.#ends.filter((end) => end.org === org).length;
  }

  waitUs(atUs: number): number {
    return Math.max(0, Math.min(...this.#freeAtUs) - atUs);
  }

  /** Takes a place until then for work that is no call. */
  hold(untilUs: number): void {
    this.#ends.push({ us: untilUs, org: -1 });
  }

  /** Keeps the slot that is free first busy with what is no call. */
  burn(atUs: number, us: number): void {
    const slot = this.#freeAtUs.indexOf(Math.min(...this.#freeAtUs));
    this.#freeAtUs[slot] = Math.max(atUs, this.#freeAtUs[slot] as number) + us;
  }

  serve(atUs: number, serviceUs: number, org = 0): number {
    const slot = this.#freeAtUs.indexOf(Math.min(...this.#freeAtUs));
    const doneUs = Math.max(atUs, this.#freeAtUs[slot] as number) + serviceUs;
    this.#freeAtUs[slot] = doneUs;
    this.#ends.push({ us: doneUs, org });
    return doneUs;
  }
}

/** Events in a span before now, counted. */
class Recent {
  #atUs: number[] = [];
  readonly #spanUs: number;

  constructor(spanUs: number) {
    this.#spanUs = spanUs;
  }

  add(atUs: number): void {
    this.#atUs.push(atUs);
  }

  count(atUs: number): number {
    let from = 0;
    while (from < this.#atUs.length && (this.#atUs[from] as number) < atUs - this.#spanUs) from += 1;
    if (from > 0) this.#atUs.splice(0, from);
    return this.#atUs.length;
  }
}

/** What a server with slots decides of a call, beside how many places there are. */
type Habits = {
  /** Calls that may be in flight. */
  limit?: (at: Moment) => number;
  /** How many times longer a call takes. */
  slower?: (at: Moment) => number;
  /** Calls of one organization that may be in flight; beyond it `org_overloaded`. */
  ofOrg?: (at: Moment) => number;
  /** After the answer is known. */
  seen?: (at: Moment & { doneUs: number; waitUs: number }) => void;
  refused?: (at: Moment, pool: Pool) => void;
  isCut?: (at: Moment) => boolean;
};
type Moment = { atUs: number; atS: number; i: number; org: number; inFlight: number; pool: Pool };

export type Slots = {
  slots: number;
  /** Running and waiting; beyond it calls are shed. */
  inFlight: number;
  serviceMs: number;
  seed?: number;
  service?: Service;
  sheds?: string;
  refusalMs?: number;
};

/** `slots` serve at once, first come first served; what is in flight beyond the limit is shed. */
export const queueing = (options: Slots, habits: Habits = {}): Server => {
  const { slots, inFlight, serviceMs, seed = 1, service = "exponential", sheds = SHED, refusalMs = 0.8 } = options;
  const pool = new Pool(slots);
  return (atUs, i, org = 0) => {
    const moment = { atUs, atS: (atUs - START_US) / 1e6, i, org, inFlight: pool.inFlight(atUs), pool };
    const isFull = moment.inFlight >= (habits.limit?.(moment) ?? inFlight);
    const ofOrg = habits.ofOrg?.(moment);
    if (isFull || (ofOrg !== undefined && pool.inFlight(atUs, org) >= ofOrg)) {
      habits.refused?.(moment, pool);
      return refusal(atUs, isFull ? sheds : "429 org_overloaded", refusalMs * 1000);
    }
    const waitUs = pool.waitUs(atUs);
    const serviceUs = 1000 * serviceMs * serviceOf(service, seed, i) * (habits.slower?.(moment) ?? 1);
    const isCut = habits.isCut?.(moment) === true;
    const doneUs = pool.serve(atUs, isCut ? serviceUs / 2 : serviceUs, org);
    habits.seen?.({ ...moment, doneUs, waitUs });
    return { doneUs, outcome: "200", ...(isCut ? { isCut } : {}) };
  };
};

export type Shape = Pick<Slots, "slots" | "serviceMs" | "seed" | "service">;

/** Additive increase, multiplicative decrease of the limit, by how long calls wait. */
export const adaptive = ({ toleratedMs, ...shape }: Shape & { toleratedMs: number }): Server => {
  const { slots, serviceMs } = shape;
  let limit = slots;
  let cutAtUs = 0;
  return queueing(
    { ...shape, inFlight: 0 },
    {
      limit: () => limit,
      seen: ({ atUs, waitUs }) => {
        if (waitUs > toleratedMs * 1000 && atUs - cutAtUs > serviceMs * 1000) {
          limit = Math.max(slots, limit * 0.7);
          cutAtUs = atUs;
        } else limit += 1 / limit;
      },
    },
  );
};

/** Envoy's gradient: each 100 ms the limit follows the shortest round trip, which it measures anew with three calls in flight. */
export const gradient = ({ everyS, ...shape }: Shape & { everyS: number }): Server => {
  const { slots } = shape;
  let limit = slots;
  let rtts: number[] = [];
  let shortest: number | null = null;
  let measuring = 0;
  let nextProbeS = everyS;
  let windowUs = 0;
  const p90 = (): number => rtts.sort((a, b) => a - b)[Math.floor(0.9 * (rtts.length - 1))] as number;
  return queueing(
    { ...shape, inFlight: 0 },
    {
      limit: ({ atS }) => {
        if (measuring === 0 && atS > nextProbeS) {
          measuring = 20;
          rtts = [];
        }
        return measuring > 0 ? 3 : limit;
      },
      seen: ({ atUs, atS, doneUs }) => {
        rtts.push(doneUs - atUs);
        if (measuring > 0) {
          measuring -= 1;
          if (measuring === 0) {
            shortest = p90();
            rtts = [];
            nextProbeS = atS + everyS;
          }
        } else if (atUs - windowUs > 100_000 && rtts.length >= 10) {
          const by = Math.min(2, Math.max(0.5, (1.25 * (shortest ?? p90())) / p90()));
          limit = Math.min(4 * slots, Math.max(3, by * limit + Math.sqrt(limit)));
          rtts = [];
          windowUs = atUs;
        }
      },
    },
  );
};

/** Vegas: the limit grows while the queue that it causes is short. */
export const vegas = (shape: Shape): Server => {
  const { slots, serviceMs } = shape;
  let limit = slots;
  let queued = 0;
  return queueing(
    { ...shape, inFlight: 0 },
    {
      limit: () => limit,
      seen: ({ waitUs, inFlight }) => {
        queued += 0.02 * (limit * (waitUs / (waitUs + serviceMs * 1000)) - queued);
        if (queued < 3 * Math.log10(limit) && inFlight * 2 >= limit) limit += Math.log10(limit) / limit;
        else if (queued > 6 * Math.log10(limit)) limit = Math.max(3, limit - Math.log10(limit) / limit);
      },
    },
  );
};

/** Everyone may use idle slots; when none is left, whoever has more than an equal share of those in use is refused first. */
export const sharing = (shape: Shape, organizations: number): Server =>
  queueing(
    { ...shape, inFlight: shape.slots },
    {
      ofOrg: ({ inFlight, pool, atUs }) => {
        const active = Array.from({ length: organizations }, (_, org) => pool.inFlight(atUs, org)).filter((n) => n > 0);
        return inFlight < 0.9 * shape.slots ? shape.slots : Math.ceil(shape.slots / Math.max(1, active.length));
      },
    },
  );

/** Replicas that get parts of the calls as weighted. */
export const replicated = (shape: Shape & { inFlight: number }, weights: readonly number[]): Server => {
  const seed = shape.seed ?? 1;
  const replicas = weights.map((_, at) => queueing({ ...shape, seed: seed * 100 + at }));
  const all = weights.reduce((sum, weight) => sum + weight, 0);
  return (atUs, i, org = 0) => {
    const drawn = uniform(seed, i, 80) * all;
    const at = weights.findIndex((_, n) => drawn < weights.slice(0, n + 1).reduce((sum, weight) => sum + weight, 0));
    return (replicas[at] as Server)(atUs, i, org);
  };
};

export const rateLimited = (
  ratePerS: number,
  burst: number,
  serviceMs: number,
  { by = "429 rate_limited", service = "constant" }: { by?: string; service?: Service } = {},
): Server => {
  let tokens = burst;
  let lastUs = 0;
  return (atUs, i) => {
    tokens = Math.min(burst, tokens + ((atUs - lastUs) / 1e6) * ratePerS);
    lastUs = atUs;
    if (tokens < 1) return refusal(atUs, by);
    tokens -= 1;
    return { doneUs: atUs + serviceMs * 1000 * serviceOf(service, 1, i), outcome: "200" };
  };
};

export const always =
  (outcome: string): Server =>
  (atUs) =>
    refusal(atUs, outcome);

const growing = (shape: Shape, to: number, atS: number): Server =>
  queueing(
    { ...shape, inFlight: 0 },
    {
      limit: ({ pool, atS: nowS, atUs }) => {
        if (nowS > atS && pool.slots < to) pool.resize(to, atUs);
        return pool.slots;
      },
    },
  );

const SIXTEEN = { slots: 16, serviceMs: 200, inFlight: 16 };

/** Servers that do nothing wrong, with a capacity of about `KNEE_PER_S`; `lastsS`: how long the load is. */
export const HONEST: Readonly<Record<string, (seed: number, lastsS: number) => Server>> = {
  "constant times": (seed) => queueing({ ...SIXTEEN, service: "constant", seed }),
  "exponential times": (seed) => queueing({ ...SIXTEEN, seed }),
  "lognormal times": (seed) => queueing({ ...SIXTEEN, service: "lognormal", seed }),
  "four slots": (seed) => queueing({ slots: 4, inFlight: 4, serviceMs: 50, seed }),
  "128 slots of long calls": (seed) => queueing({ slots: 128, inFlight: 128, serviceMs: 1600, seed }),
  "64 slots": (seed) => queueing({ slots: 64, inFlight: 64, serviceMs: 800, seed, service: "constant" }),
  "a short queue": (seed) => queueing({ ...SIXTEEN, inFlight: 24, seed }),
  "a queue with a deadline": (seed) =>
    queueing(
      { ...SIXTEEN, seed, refusalMs: 2 * SIXTEEN.serviceMs },
      { limit: ({ atUs, pool }) => (pool.waitUs(atUs) > 2000 * SIXTEEN.serviceMs ? 0 : Number.POSITIVE_INFINITY) },
    ),
  "calls that take longer beside others": (seed) =>
    queueing({ ...SIXTEEN, serviceMs: 100, seed }, { slower: ({ inFlight }) => 1 + inFlight / 16 }),
  "calls that share what serves three of them": (seed) =>
    queueing({ ...SIXTEEN, serviceMs: 40, seed }, { slower: ({ inFlight }) => Math.max(1, inFlight / 3.2) }),
  "calls that share what serves eight of them": (seed) =>
    queueing(
      { slots: 40, inFlight: 40, serviceMs: 100, service: "constant", seed },
      { slower: ({ inFlight }) => Math.max(1, inFlight / 8) },
    ),
  "capacity that grows after a while": (seed, lastsS) => growing({ ...SIXTEEN, seed }, 32, lastsS / 2),
  "capacity that grows early": (seed, lastsS) => growing({ ...SIXTEEN, seed }, 32, lastsS / 4),
  "additive increase, multiplicative decrease": (seed) => adaptive({ ...SIXTEEN, toleratedMs: 100, seed }),
  "a gradient that probes": (seed, lastsS) => gradient({ ...SIXTEEN, everyS: Math.max(15, lastsS / 10), seed }),
  "a gradient over constant times": (seed, lastsS) =>
    gradient({ ...SIXTEEN, everyS: Math.max(15, lastsS / 10), seed, service: "constant" }),
  vegas: (seed) => vegas({ ...SIXTEEN, seed }),
  "shares that move between organizations": (seed) => sharing({ ...SIXTEEN, seed }, ORGANIZATIONS),
  "uneven replicas": (seed) => replicated({ slots: 4, serviceMs: 200, inFlight: 4, seed }, [4, 3, 2, 1]),
  "even replicas": (seed) => replicated({ slots: 4, serviceMs: 200, inFlight: 4, seed }, [1, 1, 1, 1]),
  "a key's rate": () => rateLimited(KNEE_PER_S, KNEE_PER_S, 20),
  "an edge that answers 503": (seed) => queueing({ ...SIXTEEN, seed, sheds: "edge 503" }),
};

/** What breaks under overload, each in a way of its own, and the claim that has to fail. */
export const FAULTY: Readonly<Record<string, readonly [claim: string, server: (seed: number) => Server]>> = {
  "sheds early": [
    "false_sheds",
    (seed) =>
      queueing(
        { ...SIXTEEN, seed },
        { limit: ({ i }) => (uniform(5, i, 81) < 0.5 ? SIXTEEN.slots / 4 : SIXTEEN.slots) },
      ),
  ],
  "collapses from 1.5 times on": [
    "goodput_retention",
    (seed) => {
      const arrivals = new Recent(1e6);
      return queueing(
        { ...SIXTEEN, seed },
        {
          limit: ({ atUs }) => {
            arrivals.add(atUs);
            return SIXTEEN.slots;
          },
          slower: ({ atUs }) => (arrivals.count(atUs) > 1.4 * KNEE_PER_S ? 3 : 1),
        },
      );
    },
  ],
  "refuses at a sixth of a call": [
    "collapse",
    (seed) =>
      queueing({ ...SIXTEEN, seed }, { refused: ({ atUs }, pool) => pool.burn(atUs, (SIXTEEN.serviceMs * 1000) / 6) }),
  ],
  "never recovers": [
    "metastability",
    (seed) => {
      let isSick = false;
      let refusedInRow = 0;
      return queueing(
        { ...SIXTEEN, seed },
        {
          slower: ({ inFlight }) => {
            refusedInRow = 0;
            if (inFlight < SIXTEEN.slots / 4) isSick = false;
            return isSick ? 5 : 1;
          },
          refused: () => {
            refusedInRow += 1;
            if (refusedInRow > 20) isSick = true;
          },
        },
      );
    },
  ],
  "leaks slots": [
    "metastability",
    (seed) => {
      let leaked = 0;
      return queueing(
        { ...SIXTEEN, seed },
        {
          limit: () => SIXTEEN.slots - Math.min(0.75 * SIXTEEN.slots, Math.floor(leaked)),
          refused: () => {
            leaked += 1 / 300;
          },
        },
      );
    },
  ],
  "starves one organization": [
    "jain_index",
    (seed) =>
      queueing(
        { ...SIXTEEN, seed },
        { ofOrg: ({ org, inFlight }) => (org === 0 && inFlight > 0.8 * SIXTEEN.slots ? 0 : SIXTEEN.slots) },
      ),
  ],
  "refuses at a fifth of the price of a call": [
    "refusal_cost",
    (seed) =>
      queueing({ ...SIXTEEN, seed }, { refused: ({ atUs }, pool) => pool.hold(atUs + SIXTEEN.serviceMs * 200) }),
  ],
  "refuses at the price of a call": [
    "goodput_retention",
    (seed) =>
      queueing({ ...SIXTEEN, seed }, { refused: ({ atUs }, pool) => pool.hold(atUs + SIXTEEN.serviceMs * 1000) }),
  ],
  "answers late": ["collapse", (seed) => queueing({ ...SIXTEEN, seed, inFlight: 20 * SIXTEEN.slots })],
  "cuts streams": [
    "wasted_work",
    (seed) =>
      queueing(
        { ...SIXTEEN, seed },
        { isCut: ({ inFlight, i }) => inFlight > 0.9 * SIXTEEN.slots && uniform(6, i, 82) < 0.3 },
      ),
  ],
  oscillates: [
    "oscillation",
    (seed) =>
      queueing(
        { ...SIXTEEN, seed },
        {
          limit: ({ atS, inFlight }) => (inFlight > 0 && Math.floor(atS) % 2 === 1 ? SIXTEEN.slots / 4 : SIXTEEN.slots),
        },
      ),
  ],
  "sheds one in twenty": [
    "false_sheds",
    (seed) => queueing({ ...SIXTEEN, seed }, { limit: ({ i }) => (uniform(5, i, 81) < 0.05 ? 0 : SIXTEEN.slots) }),
  ],
  "refuses after a second": ["refusal_time", (seed) => queueing({ ...SIXTEEN, seed, refusalMs: 1_000 })],
  "sheds with 503": ["shed_subcodes", (seed) => queueing({ ...SIXTEEN, seed, sheds: "503" })],
  "sheds with a word of its own": ["shed_subcodes", (seed) => queueing({ ...SIXTEEN, seed, sheds: "429 too_busy" })],
};

type PlayOptions = { stage?: string; startUs?: number; organizations?: number; lateUs?: (atS: number) => number };

const EVENTS = 20;

/** The lines of a load, of which each call left when it should have, or so much later. */
export const playRamp = (server: Server, profile: Profile, seed: number, options: PlayOptions = {}): CallLine[] => {
  const { stage = "find-knee", startUs = START_US, organizations = 1, lateUs = () => 0 } = options;
  return arrivalTimesUs(profile, "poisson", seed).map((us, i) => {
    const dueUs = startUs + us;
    const sentUs = dueUs + Math.round(lateUs(us / 1e6));
    const org = i % organizations;
    const { doneUs, outcome, isCut = false } = server(sentUs, i, org);
    const done_us = Math.round(doneUs);
    const first_us = Math.round(sentUs + (doneUs - sentUs) / 4);
    const isStream = outcome === "200";
    const line: CallLine = {
      type: "call",
      id: `r-${i}`,
      stage,
      driver: "simulated",
      org: `org_${org}`,
      route: "chat.control",
      intended_us: dueUs,
      started_us: sentUs,
      connect_us: 0,
      sent_us: sentUs,
      first_us: isStream ? first_us : done_us,
      done_us,
      outcome,
      attempt: 0,
      clock_error_us: 0,
    };
    if (!isStream) return line;
    // The members are assigned, because a spread makes each of a million lines a slow object.
    line.first_event_us = first_us;
    line.events = isCut ? EVENTS / 2 : EVENTS;
    line.ended = isCut ? "reset" : "done";
    return line;
  });
};

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
