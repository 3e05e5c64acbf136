/**
 * A lease on faults, for the watchdog that runs beside a remote proxy: whoever breaks something there holds it, and renews it
 * with every heartbeat. When the heartbeat stops, what is held is healed, again and again until it is whole or too much was
 * tried; also when the runner's machine, or the network to it, is gone.
 *
 * What is healed is named by the watchdog's own target file. Nobody can have a command run here by sending it.
 */
import { type Held, LEASE_MS } from "../deployments/remote-watch.ts";
import { pause } from "../supervision/waiting.ts";

type LeaseState = {
  holder: string;
  holds: readonly Held[];
  sinceBeatMs: number;
};

type LeaseKeeping = {
  /** Heals one thing; throws a sentence while it is not whole. */
  healOne(held: Held): Promise<string>;
  /** Why something cannot be held here; `null` where it can. */
  whyNot(held: Held): Promise<string | null>;
  say(text: string): void;
  nowMs?: () => number;
  /** How often something is healed at most, and how long after a failure. */
  tries?: { most: number; againMs: number };
};

const TRY_AGAIN_MS = 1_000;
/** Ten minutes at the least: the network to a proxy may be away for a while, and what never heals needs a person. */
const TRIES_MOST = 600;

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
  state(): LeaseState | null;
  /** Heals what is held, for the end of the watchdog itself. */
  close(): Promise<void>;
};

const nameOf = (held: Held): string => ("proxy" in held ? `proxy "${held.proxy}"` : `faults.${held.fault}`);

export const createWatchdogLease = ({
  healOne,
  whyNot,
  say,
  nowMs = () => performance.now(),
  tries = { most: TRIES_MOST, againMs: TRY_AGAIN_MS },
}: LeaseKeeping): WatchdogLease => {
  let lease: { holder: string; holds: readonly Held[]; beatMs: number } | null = null;
  /** A lease that ran out, so that its holder hears of it. */
  let lost: string | null = null;
  let healing: Promise<void> | null = null;
  let timer: NodeJS.Timeout | undefined;

  const healAll = async (holds: readonly Held[]): Promise<void> => {
    await Promise.all(
      holds.map(async (held) => {
        let said = "";
        for (let tried = 1; tried <= tries.most; tried += 1) {
          try {
            say(`healed ${nameOf(held)}: ${await healOne(held)}`);
            return;
          } catch (error) {
            const { message } = error as Error;
            if (message !== said) say(`${nameOf(held)} is not healed yet: ${message}`);
            said = message;
            if (tried < tries.most) await pause(tries.againMs);
          }
        }
        say(`${nameOf(held)} was NOT healed in ${tries.most} tries, and no more are made: heal it by hand (${said})`);
      }),
    );
  };
  const release = (why: string): Promise<void> => {
    const { holder, holds } = lease ?? { holder: "", holds: [] };
    lease = null;
    clearTimeout(timer);
    say(`${holder}: ${why}; ${holds.length === 0 ? "nothing is held" : `healing ${holds.map(nameOf).join(", ")}`}`);
    const began = healAll(holds).finally(() => {
      if (healing === began) healing = null;
    });
    healing = began;
    return began;
  };
  const watch = (): void => {
    clearTimeout(timer);
    timer = setTimeout(() => {
      if (lease === null) return;
      if (nowMs() - lease.beatMs < LEASE_MS) return watch();
      lost = lease.holder;
      void release(`no heartbeat for ${LEASE_MS} ms`);
    }, LEASE_MS / 10);
  };

  return {
    state: () =>
      lease === null
        ? null
        : { holder: lease.holder, holds: lease.holds, sinceBeatMs: Math.round(nowMs() - lease.beatMs) },
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
      if (lease === null) say(`${holder}: holds ${holds.map(nameOf).join(", ")}`);
      lease = { holder, holds: [...holds], beatMs: nowMs() };
      watch();
    },
    end: async (holder) => {
      if (lease?.holder === holder) await release("ended its lease");
    },
    close: async () => {
      if (lease !== null) await release("the watchdog is stopped");
      await healing;
      clearTimeout(timer);
    },
  };
};
