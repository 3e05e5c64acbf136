/** Shedding by calls in flight (items 210-211, 220-221): a cap per replica, before parsing, and per organization. */
export type Caps = { globalInFlight: number; orgInFlight: number };

/** Calls in flight, counted in the same way for every shedder; `fits` and `orgFits` decide. */
type Flight = { total: number; readonly byOrg: ReadonlyMap<string, number>; readonly caps: Caps };

const shedderOf = (
  initial: Caps,
  fits: (flight: Flight) => boolean,
  /** `held`: calls of the organization; the total includes the call itself. */
  orgFits: (held: number, flight: Flight) => boolean = () => true,
) => {
  const byOrg = new Map<string, number>();
  const flight = { total: 0, byOrg, caps: { ...initial } };
  return {
    /** Takes a slot, which must be released, and returns true; `enterOrganization` does so for an organization. */
    enter: (): boolean => {
      if (!fits(flight)) return false;
      flight.total += 1;
      return true;
    },
    enterOrganization: (org: string, cap: number | null): boolean => {
      const held = byOrg.get(org) ?? 0;
      if (held >= (cap ?? flight.caps.orgInFlight) || !orgFits(held, flight)) return false;
      byOrg.set(org, held + 1);
      return true;
    },
    leave: (): void => {
      flight.total -= 1;
    },
    leaveOrganization: (org: string): void => {
      const left = (byOrg.get(org) ?? 0) - 1;
      if (left <= 0) byOrg.delete(org);
      else byOrg.set(org, left);
    },
    /** Takes a call's wait for the inference; only an adaptive shedder uses the value. */
    sample: (_queueWaitMs: number, _nowMs: number): void => {},
    inFlight: (): number => flight.total,
    inFlightByOrganization: (): Record<string, number> => Object.fromEntries(byOrg),
    setCaps: (next: Partial<Caps>): void => void Object.assign(flight.caps, next),
    caps: (): Caps => ({ ...flight.caps }),
  };
};

export type Shedder = ReturnType<typeof shedderOf>;

export const fixedShedder = (caps: Caps): Shedder =>
  shedderOf(caps, ({ total, caps: { globalInFlight } }) => total < globalInFlight);

// Adaptive shedding: the limit on calls in flight follows from the wait for the inference, by Envoy's adaptive concurrency
// gradient (envoyproxy.io, adaptive_concurrency_filter) over windows of 100 ms, with the tolerated queue wait T:
//
//     gradient = clamp(2 T / (T + wait_p90), 0.5, 1)        limit' = limit + s ((gradient - 1) x limit + sqrt(limit))
//
// Queue wait replaces the round trip, because a stream's length is due to the workload. As in Netflix concurrency-limits,
// s smooths (Gradient2), the limit grows only while it is used, and at the limit only organizations that hold less than
// limit / active organizations are admitted.

const WINDOW_MS = 100;
const LIMIT_LEAST = 3;

/**
 * The s of the formula. The limit reacts within a few windows and varies by 2 % in steady load (18 % without smoothing;
 * 40 slots in virtual time).
 */
const SMOOTHING = 0.3;

/** Calls above the limit, as a share of it, for organizations that hold less than limit / active organizations. */
const RESERVE = 0.25;
/** The least reserve, in calls. A quarter of a small limit is too few: busy organizations would leave none for a quiet one. */
const RESERVE_LEAST = 8;

const p90 = (samples: number[]): number => {
  samples.sort((a, b) => a - b);
  return samples[Math.min(samples.length - 1, Math.floor(samples.length * 0.9))] as number;
};

export const adaptiveShedder = (
  options: Caps & {
    /** T: the p90 queue wait, in milliseconds, at which the limit stays the same, apart from the term sqrt(limit). */
    toleratedWaitMs: number;
  },
): Shedder & { limit(): number } => {
  const { toleratedWaitMs, globalInFlight, orgInFlight } = options;
  let limit = Math.max(LIMIT_LEAST, globalInFlight / 2);
  let windowEndsMs = Number.NEGATIVE_INFINITY;
  let samples: number[] = [];
  let mostInFlight = 0;

  const shedder = shedderOf(
    { globalInFlight, orgInFlight },
    ({ total, caps }) => {
      const room = Math.max(RESERVE_LEAST, limit * RESERVE);
      if (total >= Math.min(caps.globalInFlight, Math.ceil(limit + room))) return false;
      mostInFlight = Math.max(mostInFlight, total + 1);
      return true;
    },
    (held, { total, byOrg }) => {
      const active = byOrg.size + (held === 0 ? 1 : 0);
      return total <= limit || held < Math.max(1, Math.floor(limit / active));
    },
  );
  const update = (): void => {
    const gradient = Math.min(1, Math.max(0.5, (2 * toleratedWaitMs) / (toleratedWaitMs + p90(samples))));
    const next = limit + SMOOTHING * ((gradient - 1) * limit + Math.sqrt(limit));
    const isUsed = mostInFlight * 2 >= limit;
    if (next < limit || isUsed) limit = Math.min(shedder.caps().globalInFlight, Math.max(LIMIT_LEAST, next));
    samples = [];
    mostInFlight = shedder.inFlight();
  };
  return {
    ...shedder,
    sample: (queueWaitMs, nowMs) => {
      if (nowMs >= windowEndsMs) {
        if (samples.length > 0) update();
        windowEndsMs = nowMs + WINDOW_MS;
      }
      samples.push(queueWaitMs);
    },
    setCaps: (next) => {
      shedder.setCaps(next);
      limit = Math.min(limit, shedder.caps().globalInFlight);
    },
    limit: () => limit,
  };
};
