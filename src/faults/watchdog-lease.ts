/**
 * A lease on faults, for the watchdog beside a remote proxy. A run that breaks something holds the lease and renews it with
 * heartbeats. Without them the watchdog heals what is held, retrying for a while, even if the runner's machine or network is
 * gone. Only the watchdog's own target file names what may be healed; requests carry no commands.
 */
import { type Held, LEASE_MS } from "../deployments/remote-watch.ts";
import { pause } from "../supervision/waiting.ts";

type LeaseKeeping = {
  /** Heals one thing; throws while it is not whole. */
  healOne(held: Held): Promise<string>;
  /** Returns why something cannot be held; `null` if it can. */
  whyNot(held: Held): Promise<string | null>;
  say(text: string): void;
  /** Number of attempts, and pause after a failure. */
  tries?: { most: number; againMs: number };
};

/** At least ten minutes: the network may be away for a while. After that a person is needed. */
const TRIES = { most: 600, againMs: 1_000 };

export class LeaseRefused extends Error {
  override name = "LeaseRefused";
  readonly status: number;
  constructor(status: number, message: string) {
    super(message);
    this.status = status;
  }
}

const nameOf = (held: Held): string => ("proxy" in held ? `proxy "${held.proxy}"` : `faults.${held.fault}`);
const namesOf = (holds: readonly Held[]): string => holds.map(nameOf).join(", ");

export type WatchdogLease = ReturnType<typeof createWatchdogLease>;

export const createWatchdogLease = ({ healOne, whyNot, say, tries = TRIES }: LeaseKeeping) => {
  let lease: { holder: string; holds: readonly Held[]; beatMs: number } | null = null;
  /** Holder of an expired lease, which has to be told. */
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
    state: (): { holder: string; holds: readonly Held[]; sinceBeatMs: number } | null => {
      if (lease === null) return null;
      const { holder, holds, beatMs } = lease;
      return { holder, holds, sinceBeatMs: Math.round(performance.now() - beatMs) };
    },
    /** A heartbeat with everything held from now on. Throws `LeaseRefused`. */
    beat: async (holder: string, holds: readonly Held[]): Promise<void> => {
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
        // A lease without faults needs no heartbeat.
        if (lease !== null) say(`${holder}: holds nothing any more`);
        lease = null;
        clearTimeout(timer);
        return;
      }
      if (lease === null) say(`${holder}: holds ${namesOf(holds)}`);
      lease = { holder, holds: [...holds], beatMs: performance.now() };
      watch();
    },
    /** Heals what is still held. */
    end: async (holder: string): Promise<void> => {
      if (lease?.holder === holder) await release("ended its lease");
    },
    /** Heals what is held when the watchdog stops. */
    close: async (): Promise<void> => {
      await release("the watchdog is stopped");
      await healing;
      clearTimeout(timer);
    },
  };
};
