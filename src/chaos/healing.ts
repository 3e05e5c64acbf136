/**
 * Makes one proxied link whole again, and says what it took. Removing a toxic can hang for ever inside toxiproxy (a peer
 * that does not read holds its lock), so there is a ladder, each call with its own deadline: DELETE the toxics, `/reset`,
 * disable and enable, a new server where it is ours. Only a read-back counts as healed.
 */
import { TOXIC_PREFIX } from "./fault.ts";
import { takeToxicAway } from "./take-toxic-away.ts";
import type { ProxyState, Toxiproxy } from "./toxiproxy.ts";
import { type CallOptions, ToxiproxyError } from "./toxiproxy-transport.ts";

type HealOptions = CallOptions & {
  /**
   * `/reset` touches every proxy of the server. False where the server is shared with others: then only toxics of ours are
   * removed as well, and what somebody else put on the proxy stays.
   */
  mayReset?: boolean;
  /** False where the fault did not disable the proxy: if it is disabled now, somebody else did that (default true). */
  mayEnable?: boolean;
  /** The last rung, for a server of our own: makes it anew (`ToxiproxyServer.restart`). */
  restart?: () => Promise<void>;
};

/**
 * `did` names each rung that was climbed, none when the link was whole; `trouble` what failed on the way. `gone`: there
 * is no such proxy or no server any more, so no fault either, and no link.
 */
type Healing = { proxy: string; healed: boolean; gone: boolean; did: string[]; trouble: string[] };

const isGone = (error: unknown): boolean =>
  error instanceof ToxiproxyError && (error.status === 404 || error.code === "ECONNREFUSED");

/** Never rejects: a cleanup that fails is reported, and is no reason to leave the next link broken. */
export const heal = async (toxiproxy: Toxiproxy, name: string, options: HealOptions = {}): Promise<Healing> => {
  const { mayReset = true, restart, mayEnable: enabling = true, ...call } = options;
  let mayEnable = enabling;
  const proxy = toxiproxy.proxy(name);
  const ours = ({ toxics }: ProxyState): ProxyState["toxics"] =>
    toxics.filter((toxic) => mayReset || toxic.name.startsWith(TOXIC_PREFIX));
  const isWhole = (state: ProxyState): boolean => (state.enabled || !mayEnable) && ours(state).length === 0;
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
    for (const toxic of state === null ? [] : ours(state))
      await attempt(`DELETE toxic ${toxic.name}`, () =>
        takeToxicAway(proxy, toxic, state?.enabled === true && mayEnable, call),
      );
  };

  const rungs: ((state: ProxyState | null) => Promise<void>)[] = [
    async (state) => {
      await removeToxics(state);
      if (state?.enabled === false && mayEnable) await attempt("enabled=true", () => proxy.setEnabled(true, call));
    },
    async () => {
      if (mayReset) await attempt("POST /reset", () => toxiproxy.reset(call));
    },
    async (state) => {
      // From here on it is disabled by us.
      mayEnable = true;
      await attempt("enabled=false", () => proxy.setEnabled(false, call));
      await removeToxics(state === null ? null : { ...state, enabled: false });
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
