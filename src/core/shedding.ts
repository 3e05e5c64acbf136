/**
 * Load shedding by calls in flight (items 210-211, 220-221): a cap of the replica, checked before anything is parsed,
 * and one for each organization, checked once the caller is known. A slot is held until the answer or the stream ends.
 */

/** Implemented by fixed and adaptive shedding. `true`: a slot was taken and must be released. */
export type Shedder = {
  enter(): boolean;
  enterOrganization(org: string, cap: number | null): boolean;
  leave(): void;
  leaveOrganization(org: string): void;
  /** A call's wait for the inference, in milliseconds: the input of an adaptive shedder. */
  sample(queueWaitMs: number, nowMs: number): void;
  inFlight(): number;
  inFlightByOrganization(): Record<string, number>;
  setCaps(caps: Partial<Caps>): void;
  caps(): Caps;
};

export type Caps = { globalInFlight: number; orgInFlight: number };

/** Calls in flight, counted in the same way for every shedder; `fits` and `orgFits` decide. */
type Flight = { total: number; readonly byOrg: ReadonlyMap<string, number>; readonly caps: Caps };

export const shedderOf = (
  initial: Caps,
  fits: (flight: Flight) => boolean,
  /** `held`: calls of the organization; the total includes the call itself. */
  orgFits: (held: number, flight: Flight) => boolean = () => true,
): Shedder => {
  const byOrg = new Map<string, number>();
  const flight = { total: 0, byOrg, caps: { ...initial } };
  return {
    enter: () => {
      if (!fits(flight)) return false;
      flight.total += 1;
      return true;
    },
    enterOrganization: (org, cap) => {
      const held = byOrg.get(org) ?? 0;
      if (held >= (cap ?? flight.caps.orgInFlight) || !orgFits(held, flight)) return false;
      byOrg.set(org, held + 1);
      return true;
    },
    leave: () => {
      flight.total -= 1;
    },
    leaveOrganization: (org) => {
      const left = (byOrg.get(org) ?? 0) - 1;
      if (left <= 0) byOrg.delete(org);
      else byOrg.set(org, left);
    },
    sample: () => {},
    inFlight: () => flight.total,
    inFlightByOrganization: () => Object.fromEntries(byOrg),
    setCaps: (next) => void Object.assign(flight.caps, next),
    caps: () => ({ ...flight.caps }),
  };
};

export const fixedShedder = (caps: Caps): Shedder =>
  shedderOf(caps, ({ total, caps: { globalInFlight } }) => total < globalInFlight);
