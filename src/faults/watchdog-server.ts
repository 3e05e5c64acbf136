/**
 * The server of `chaos --watchdog`, beside a remote proxy (HTTP and JSON, with a token). A run that injects a fault
 * holds a lease and renews it with heartbeats. When they stop, as when the runner's machine is gone, the server heals
 * what the lease holds, with retries. Only its own target file names what may be healed; requests carry no commands.
 */
import { Type } from "typebox";
import { parseHttpUrl } from "../contract/address.ts";
import { type Held, LEASE_MS } from "../deployments/remote-watch.ts";
import { admitToken, RequestError, route, routeWith, startHttpService } from "../platform/links/http-service.ts";
import { type NamedUndo, runUndo } from "../supervision/journal.ts";
import { pause } from "../supervision/waiting.ts";
import type { Target } from "../target/target.ts";
import { targetName } from "../target/target-file.ts";
import { openToxiproxy } from "../tools/toxiproxy.ts";
import { UNDO_PORTS, undoByName } from "./healing.ts";

type LeaseKeeping = {
  /** Heals one proxy or fault. Throws if it is not healed. */
  healOne(held: Held): Promise<string>;
  /** Returns why something cannot be held; `null` if it can. */
  whyNot(held: Held): Promise<string | null>;
  say(text: string): void;
  tries?: { most: number; againMs: number };
};

/** Retries for at least ten minutes, because the network may be down for a while. After that a person is needed. */
const TRIES = { most: 600, againMs: 1_000 };

const nameOf = (held: Held): string => {
  if ("proxy" in held) return `proxy "${held.proxy}"`;
  return held.replicas === undefined ? `faults.${held.fault}` : `scale to ${held.replicas}`;
};
const namesOf = (holds: readonly Held[]): string => holds.map(nameOf).join(", ");

export const createWatchdogLease = ({ healOne, whyNot, say, tries = TRIES }: LeaseKeeping) => {
  let lease: { holder: string; holds: readonly Held[]; beatMs: number } | null = null;
  /** Holder of an expired lease, whose next heartbeat is answered 410. */
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
  const requireFree = (holder: string): void => {
    if (lost === holder) throw new RequestError(410, "the lease expired, and its faults were healed");
    if (healing !== null) throw new RequestError(409, "the faults of an earlier lease are still being healed");
    if (lease !== null && lease.holder !== holder) {
      throw new RequestError(409, `the run ${lease.holder} has broken something here; one run at a time`);
    }
  };
  const expire = (): void => {
    lost = lease?.holder ?? lost;
    void release(`no heartbeat for ${LEASE_MS} ms`);
  };

  return {
    state: () => {
      if (lease === null) return null;
      const { holder, holds, beatMs } = lease;
      return { holder, holds, sinceBeatMs: Math.round(performance.now() - beatMs) };
    },
    /** Takes a heartbeat, which lists everything held from now on. Throws the error to answer with. */
    beat: async (holder: string, holds: readonly Held[]): Promise<void> => {
      requireFree(holder);
      const known = new Set(lease?.holds.map(nameOf));
      for (const held of holds) {
        const why = known.has(nameOf(held)) ? null : await whyNot(held);
        if (why !== null) throw new RequestError(422, why);
      }
      // Meanwhile the lease may have expired, or another run may have taken one.
      requireFree(holder);
      if (holds.length === 0) {
        // A lease without faults needs no heartbeat.
        if (lease !== null) say(`${holder}: holds nothing any more`);
        lease = null;
        return clearTimeout(timer);
      }
      if (lease === null) say(`${holder}: holds ${namesOf(holds)}`);
      lease = { holder, holds, beatMs: performance.now() };
      clearTimeout(timer);
      timer = setTimeout(expire, LEASE_MS);
    },
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

const CALL_MS = 1_000;
const HEAL_MS = 5_000;
const COMMAND_MS = 30_000;
const MAX_BODY_BYTES = 64_000;
const HOLDS_MOST = 64;

/** Printable ASCII, which is safe in a log. */
const NAME = Type.String({ pattern: "^[\\x20-\\x7e]{1,200}$" });
const CLOSED = { additionalProperties: false };
const HELD = Type.Union([
  Type.Object({ proxy: NAME, disables: Type.Boolean() }, CLOSED),
  Type.Object({ fault: NAME, replicas: Type.Optional(Type.Integer({ minimum: 0 })) }, CLOSED),
]);
const BODY = Type.Object({ holder: NAME, holds: Type.Array(HELD, { maxItems: HOLDS_MOST }) }, CLOSED);

/** Heals what this machine's own target file names. */
const keepingOf = (target: Target, file: string, say: (text: string) => void): LeaseKeeping => {
  const known = { run: null, folder: "", given: [{ target, file }] };
  const undoOf = (held: Held) => {
    const how = "proxy" in held ? "heal-proxy" : "command";
    return undoByName({ how, ...held, target: targetName(target, file) } as NamedUndo, known);
  };
  return {
    say,
    whyNot: async (held) => {
      const found = undoOf(held);
      if ("trouble" in found) return `the watchdog cannot heal it: ${found.trouble}`;
      if (found.undo.how !== "heal-proxy") return null;
      const { api_url, proxy } = found.undo;
      await using control = openToxiproxy(api_url, { callMs: CALL_MS });
      return await control
        .proxy(proxy)
        .read()
        .then(
          () => null,
          (error: Error) => `the watchdog cannot reach the proxy "${proxy}": ${error.message}`,
        );
    },
    healOne: async (held) => {
      const found = undoOf(held);
      if ("trouble" in found) throw new Error(found.trouble);
      const forMs = found.undo.how === "command" ? COMMAND_MS * found.undo.commands.length : HEAL_MS;
      const limits = { ports: UNDO_PORTS, signal: AbortSignal.timeout(forMs), callMs: CALL_MS, graceMs: 0 };
      return runUndo(found.undo, limits);
    },
  };
};

export type WatchdogServer = Awaited<ReturnType<typeof startWatchdogServer>>;

export const startWatchdogServer = async (options: {
  target: Target;
  file: string;
  host: string;
  port: number;
  token: string;
  say(text: string): void;
}) => {
  const { target, file, host, port, token, say } = options;
  const lease = createWatchdogLease(keepingOf(target, file, say));
  const state = () => ({ lease: lease.state() });
  const names = target.watchdog === undefined ? [] : [parseHttpUrl(target.watchdog.url).host];
  const service = await startHttpService({
    ...{ host, port, admit: admitToken(token, host, names), maxBodyBytes: MAX_BODY_BYTES },
    routes: [
      route("GET", "/lease", state),
      routeWith(BODY, "PUT", "/lease", ({ holder, holds }) => lease.beat(holder, holds).then(state)),
      routeWith(BODY, "DELETE", "/lease", ({ holder }) => lease.end(holder).then(state)),
    ],
  });
  return {
    url: service.url,
    close: async (): Promise<void> => {
      await lease.close();
      await service.close();
    },
  };
};
