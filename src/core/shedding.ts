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

/** Counts calls in flight, in the same way for every shedder. */
export class InFlight {
  total = 0;
  readonly byOrg = new Map<string, number>();

  of(org: string): number {
    return this.byOrg.get(org) ?? 0;
  }

  enterOrganization(org: string): void {
    this.byOrg.set(org, this.of(org) + 1);
  }

  leaveOrganization(org: string): void {
    const left = this.of(org) - 1;
    if (left <= 0) this.byOrg.delete(org);
    else this.byOrg.set(org, left);
  }
}

export const fixedShedder = (initial: Caps): Shedder => {
  const caps = { ...initial };
  const flight = new InFlight();
  return {
    enter: () => {
      if (flight.total >= caps.globalInFlight) return false;
      flight.total += 1;
      return true;
    },
    enterOrganization: (org, cap) => {
      if (flight.of(org) >= (cap ?? caps.orgInFlight)) return false;
      flight.enterOrganization(org);
      return true;
    },
    leave: () => {
      flight.total -= 1;
    },
    leaveOrganization: (org) => flight.leaveOrganization(org),
    sample: () => {},
    inFlight: () => flight.total,
    inFlightByOrganization: () => Object.fromEntries(flight.byOrg),
    setCaps: (next) => {
      Object.assign(caps, next);
    },
    caps: () => ({ ...caps }),
  };
};
