/**
 * Load shedding by calls in flight (items 210-211, 220-221): a replica's cap over all, asked before anything is parsed,
 * and a cap for each organization, asked once the caller is known. A shed call spends nothing. A slot is held until the
 * answer or the stream ends.
 */

/** The port that fixed and adaptive shedding share. `true` means the slot is taken and must be given back. */
export type Shedder = {
  enter(): boolean;
  enterOrganization(org: string, cap: number | null): boolean;
  leave(): void;
  leaveOrganization(org: string): void;
  /** How long a call waited for the inference, in milliseconds: what an adaptive shedder learns from. */
  sample(queueWaitMs: number, nowMs: number): void;
  inFlight(): number;
  inFlightByOrganization(): Record<string, number>;
  setCaps(caps: Partial<Caps>): void;
  /** As they are now. */
  caps(): Caps;
};

export type Caps = { globalInFlight: number; orgInFlight: number };

/** Counts what is in flight; shared by every way to shed, so that gauges mean the same everywhere. */
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
