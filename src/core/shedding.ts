/** Shedding by calls in flight (items 210-211, 220-221): a cap per replica, before parsing, and per organization. */

export type Caps = { globalInFlight: number; orgInFlight: number };

/** Calls in flight, counted in the same way for every shedder; `fits` and `orgFits` decide. */
type Flight = { total: number; readonly byOrg: ReadonlyMap<string, number>; readonly caps: Caps };

export const shedderOf = (
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
