/**
 * Makes one proxied link whole again, and says what it took. Removing a toxic can hang for ever inside toxiproxy (a peer
 * that does not read holds its lock), so there is a ladder, each call with its own deadline: DELETE the toxics, `/reset`,
 * disable and enable, a new server where it is ours. What counts is how the proxy is afterwards: enabled, without a toxic of
 * ours, listening, and with no step left that toxiproxy may still carry out.
 */

import { isServing, type Serving } from "../tools/serving.ts";
import type { ProxyState, Toxiproxy } from "../tools/toxiproxy.ts";
import { type CallOptions, ToxiproxyError } from "../tools/toxiproxy-transport.ts";
import { TOXIC_PREFIX } from "./fault.ts";
import { FAULTS } from "./faults/catalogue.ts";
import { takeToxicAway } from "./take-toxic-away.ts";

type HealOptions = CallOptions & {
  /**
   * `/reset` touches every proxy of the server. False where the server is shared with others: then only toxics of ours are
   * removed as well, and what somebody else put on the proxy stays.
   */
  mayReset?: boolean;
  /**
   * False where the fault did not disable the proxy: if it is disabled now, somebody else did that (default true). A toxic of a
   * fault that disables says by its name that it was ours.
   */
  mayEnable?: boolean;
  /** The last rung, for a server of our own: makes it anew (`ToxiproxyServer.restart`). */
  restart?: () => Promise<void>;
};

/**
 * `did` names each rung that was climbed, none when the link was whole; `trouble` what failed on the way. `gone`: there
 * is no such proxy or no server any more, so no fault either, and no link. `disabledByOthers`: nothing of ours is left on it,
 * and it is disabled. `serving`: what a caller finds in the end.
 */
export type Healing = {
  proxy: string;
  healed: boolean;
  gone: boolean;
  disabledByOthers: boolean;
  serving: Serving;
  did: string[];
  trouble: string[];
};

const isGone = (error: unknown): boolean =>
  error instanceof ToxiproxyError && (error.status === 404 || error.code === "ECONNREFUSED");

const isOurs = ({ name }: { name: string }): boolean => name.startsWith(TOXIC_PREFIX);

/** Toxics that stand for a disabled proxy. */
const DISABLING: ReadonlySet<string> = new Set(
  FAULTS.filter(({ make }) => make({ budgetMs: 1_000 }).disables === true).map(({ name }) => `${TOXIC_PREFIX}${name}`),
);

/** Whether a disabled proxy shows that we disabled it. */
export const isDisabledByUs = ({ enabled, toxics }: ProxyState): boolean =>
  !enabled && toxics.some(({ name }) => DISABLING.has(name));

export const hasOurToxics = ({ toxics }: ProxyState): boolean => toxics.some(isOurs);

/** How long a step that was not answered is waited for; toxiproxy's own time-out is 25 s. */
const LATE_MS = 10_000;
/** The ladder again, where a late step changed what had looked whole. */
const PASSES = 2;

/** Never rejects: a cleanup that fails is reported, and is no reason to leave the next link broken. */
export const heal = async (toxiproxy: Toxiproxy, name: string, options: HealOptions = {}): Promise<Healing> => {
  const { mayReset = true, restart, mayEnable: enabling = true, ...call } = options;
  let mayEnable = enabling;
  const proxy = toxiproxy.proxy(name);
  const ours = ({ toxics }: ProxyState): ProxyState["toxics"] => toxics.filter((toxic) => mayReset || isOurs(toxic));
  const did: string[] = [];
  const trouble: string[] = [];
  let gone = false;
  let serving = "unseen" as Serving;

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
  /** Nothing is left to do for us: it may still be disabled, by somebody else. */
  const isClear = (state: ProxyState | null): state is ProxyState =>
    state !== null && (state.enabled || !mayEnable) && ours(state).length === 0;
  const isWhole = async (state: ProxyState | null): Promise<boolean> => {
    if (!isClear(state)) return false;
    serving = state.enabled ? await isServing(state, toxiproxy.apiUrl) : "refuses";
    return serving !== "refuses" || !state.enabled;
  };
  const removeToxics = async (state: ProxyState | null): Promise<void> => {
    for (const toxic of state === null ? [] : ours(state))
      await attempt(`DELETE toxic ${toxic.name}`, () =>
        takeToxicAway(proxy, toxic, state?.enabled === true && mayEnable, call),
      );
  };
  const ladder: ((state: ProxyState | null) => Promise<void>)[] = [
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
  const isOver = (): boolean => gone || call.signal?.aborted === true;

  let state = await read();
  // One that shows whose it is may be enabled, whatever else is known of it.
  if (state !== null && isDisabledByUs(state)) mayEnable = true;
  let whole = await isWhole(state);
  for (let pass = 0; pass < PASSES && !isOver(); pass += 1) {
    for (const rung of ladder) {
      if (whole || isOver()) break;
      await rung(state);
      state = await read();
      whole = await isWhole(state);
    }
    if (!whole || toxiproxy.underWay() === 0) break;
    const late = AbortSignal.timeout(LATE_MS);
    await toxiproxy.settled(call.signal === undefined ? late : AbortSignal.any([call.signal, late]));
    state = await read();
    whole = await isWhole(state);
    if (toxiproxy.underWay() > 0) {
      whole = false;
      trouble.push(
        "a step that was not answered in time may still be carried out; heal once more, or restart toxiproxy",
      );
      break;
    }
    if (whole) break;
  }
  const disabledByOthers = state !== null && !state.enabled && !mayEnable && ours(state).length === 0;
  if (state?.enabled === true && serving === "refuses") trouble.push(`nobody listens at ${state.listen}`);
  if (state !== null && !whole && trouble.length === 0) {
    const left = [...ours(state).map(({ name: toxic }) => toxic), ...(state.enabled ? [] : ["disabled"])];
    trouble.push(`every step was answered, and it still is as it was: ${left.join(", ")}`);
  }
  if (disabledByOthers) trouble.push("somebody else disabled it, so it stays disabled");
  return { proxy: name, healed: whole && !disabledByOthers, gone, disabledByOthers, serving, did, trouble };
};
