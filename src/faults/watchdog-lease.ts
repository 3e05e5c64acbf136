/**
 * A lease on faults, for the watchdog that runs beside a remote proxy: a run that breaks something there holds it, and renews it
 * with every heartbeat. When the heartbeat stops, what is held is healed, again and again until it is whole or too much was
 * tried; also when the runner's machine, or the network to it, is gone.
 *
 * The watchdog's own target file names what is healed; no command is taken from a request.
 */
import { type Held, LEASE_MS } from "../deployments/remote-watch.ts";
import { pause } from "../supervision/waiting.ts";

type LeaseKeeping = {
  /** Heals one thing; throws a sentence while it is not whole. */
  healOne(held: Held): Promise<string>;
  /** Why something cannot be held here; `null` where it can. */
  whyNot(held: Held): Promise<string | null>;
  say(text: string): void;
  /** How often something is healed at most, and how long after a failure. */
  tries?: { most: number; againMs: number };
};

/** Ten minutes at the least: the network to a proxy may be away for a while, and what never heals needs a person. */
const TRIES = { most: 600, againMs: 1_000 };

export class LeaseRefused extends Error {
  override name = "LeaseRefused";
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

export type WatchdogLease = {
  /** A heartbeat, with all that is held from now on. Throws `LeaseRefused`. */
  beat(holder: string, holds: readonly Held[]): Promise<void>;
  /** The end of a lease: what is still held is healed. */
  end(holder: string): Promise<void>;
  state(): { holder: string; holds: readonly Held[]; sinceBeatMs: number } | null;
  /** Heals what is held, for the end of the watchdog itself. */
  close(): Promise<void>;
};

const nameOf = (held: Held): string => ("proxy" in held ? `proxy "${held.proxy}"` : `faults.${held.fault}`);
const namesOf = (holds: readonly Held[]): string => holds.map(nameOf).join(", ");

export const createWatchdogLease = ({ healOne, whyNot, say, tries = TRIES }: LeaseKeeping): WatchdogLease => {
  let lease: { holder: string; holds: readonly Held[]; beatMs: number } | null = null;
  /** The holder of a lease that ran out, who has to hear of it. */
  let lost: string | null = null;
  let healing: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;

  const healUntilWhole = async (held: Held): Promise<void> => {
    let said = "";
    for (let tried = 1; tried <= tries.most; tried += 1) {
      try {
        return say(`healed ${nameOf(held)}: ${await healOne(held)}`);
      } catch (error) {
        const { message } = error as Error;
        if (message !== said) say(`${nameOf(held)} is not healed yet: ${message}`);
        said = message;
        if (tried < tries.most) await pause(tries.againMs);
      }
    }
    say(`${nameOf(held)} was NOT healed in ${tries.most} tries, and no more are made: heal it by hand (${said})`);
  };
  const release = async (why: string): Promise<void> => {
    if (lease === null) return;
    const { holder, holds } = lease;
    lease = null;
    clearTimeout(timer);
    say(`${holder}: ${why}; ${holds.length === 0 ? "nothing is held" : `healing ${namesOf(holds)}`}`);
    const began = Promise.all(holds.map(healUntilWhole)).then(() => {
      if (healing === began) healing = null;
    });
    healing = began;
    await began;
  };
  const watch = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (lease === null) return;
      if (performance.now() - lease.beatMs < LEASE_MS) return watch();
      lost = lease.holder;
      void release(`no heartbeat for ${LEASE_MS} ms`);
    }, LEASE_MS / 10);
  };

  return {
    state: () => {
      if (lease === null) return null;
      const { holder, holds, beatMs } = lease;
      return { holder, holds, sinceBeatMs: Math.round(performance.now() - beatMs) };
    },
    beat: async (holder, holds) => {
      if (lost === holder) throw new LeaseRefused(410, "the lease ran out, and what it held was healed");
      if (healing !== null) throw new LeaseRefused(409, "what an earlier lease held is still being healed");
      if (lease !== null && lease.holder !== holder) {
        throw new LeaseRefused(409, `the run ${lease.holder} has broken something here; one run at a time`);
      }
      const known = new Set(lease?.holds.map(nameOf));
      for (const held of holds) {
        const why = known.has(nameOf(held)) ? null : await whyNot(held);
        if (why !== null) throw new LeaseRefused(422, why);
      }
      if (holds.length === 0) {
        // Between two faults there is nothing that a silence could leave broken.
        if (lease !== null) say(`${holder}: holds nothing any more`);
        lease = null;
        clearTimeout(timer);
        return;
      }
      if (lease === null) say(`${holder}: holds ${namesOf(holds)}`);
      lease = { holder, holds: [...holds], beatMs: performance.now() };
      watch();
    },
    end: async (holder) => {
      if (lease?.holder === holder) await release("ended its lease");
    },
    close: async () => {
      await release("the watchdog is stopped");
      await healing;
      clearTimeout(timer);
    },
  };
};
