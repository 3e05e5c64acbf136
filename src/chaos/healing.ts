/**
 * Makes one proxied link whole again, and says what it took. Removing a toxic can hang for ever inside toxiproxy (a peer
 * that does not read holds its lock), so there is a ladder, each rung with its own deadline: DELETE the toxics, `/reset`,
 * disable and enable, a new server where it is ours. Only a read-back counts as healed.
 */
import type { ProxyState, Toxiproxy } from "./toxiproxy.ts";
import { type CallOptions, ToxiproxyError } from "./toxiproxy-transport.ts";

export type HealOptions = CallOptions & {
  /** `/reset` touches every proxy of the server, so leave it out where the server is shared with others. */
  mayReset?: boolean;
  /** The last rung, for a server of our own: makes it anew (`ToxiproxyServer.restart`). */
  restart?: () => Promise<void>;
};

/**
 * `did` names each rung that was climbed, none when the link was whole; `trouble` what failed on the way. `gone`: there
 * is no such proxy or no server any more, so no fault either, and no link.
 */
export type Healing = { proxy: string; healed: boolean; gone: boolean; did: string[]; trouble: string[] };

const isGone = (error: unknown): boolean =>
  error instanceof ToxiproxyError && (error.status === 404 || error.code === "ECONNREFUSED");

const isWhole = (state: ProxyState): boolean => state.enabled && state.toxics.length === 0;

/** Never rejects: a cleanup that fails is told, and is no reason to leave the next link broken. */
export const heal = async (toxiproxy: Toxiproxy, name: string, options: HealOptions = {}): Promise<Healing> => {
  const { mayReset = true, restart, ...call } = options;
  const proxy = toxiproxy.proxy(name);
  const did: string[] = [];
  const trouble: string[] = [];
  let gone = false;

  const attempt = async (what: string, step: () => Promise<unknown>): Promise<void> => {
    did.push(what);
    await step().catch((error: unknown) => void trouble.push((error as Error).message));
  };
  const read = (): Promise<ProxyState | null> =>
    proxy.read(call).catch((error: unknown) => {
      gone ||= isGone(error);
      trouble.push((error as Error).message);
      return null;
    });
  const removeToxics = async (state: ProxyState | null): Promise<void> => {
    for (const toxic of state?.toxics ?? [])
      await attempt(`DELETE toxic ${toxic.name}`, () => proxy.removeToxic(toxic.name, call));
  };

  const rungs: ((state: ProxyState | null) => Promise<void>)[] = [
    async (state) => {
      await removeToxics(state);
      if (state?.enabled === false) await attempt("enabled=true", () => proxy.setEnabled(true, call));
    },
    async () => {
      if (mayReset) await attempt("POST /reset", () => toxiproxy.reset(call));
    },
    async (state) => {
      await attempt("enabled=false", () => proxy.setEnabled(false, call));
      await removeToxics(state);
      await attempt("enabled=true", () => proxy.setEnabled(true, call));
    },
    async () => {
      if (restart !== undefined) await attempt("restart of the server", restart);
    },
  ];
  let state = await read();
  for (const rung of rungs) {
    if (gone || call.signal?.aborted === true) break;
    if (state !== null && isWhole(state)) break;
    await rung(state);
    state = await read();
  }
  return { proxy: name, healed: state !== null && isWhole(state), gone, did, trouble };
};

/** Heals every proxy of a server, or those named; what `chaos --heal` and the watchdog do. */
export const healAll = async (
  toxiproxy: Toxiproxy,
  names: string[] | "all",
  options: HealOptions = {},
): Promise<Healing[]> => {
  const { mayReset: _, restart: __, ...call } = options;
  const which = names === "all" ? (await toxiproxy.list(call)).map((state) => state.name) : names;
  return await Promise.all(which.map((name) => heal(toxiproxy, name, options)));
};
