/**
 * Makes one proxied link whole again. Removing a toxic can hang for ever inside toxiproxy (a peer that does not read
 * holds its lock), so four steps are tried, with deadlines: DELETE the toxics, `/reset`, disable and enable, restart
 * our server. A link is whole if its proxy is enabled, listens and has no toxic of ours, and every step was answered.
 */
import { controlGet, controlSend } from "../client/control-planes.ts";
import type { ChangeUndo, UndoPorts } from "../supervision/journal.ts";
import { isServing, type Serving } from "../tools/link-probe.ts";
import * as proxies from "../tools/toxiproxy.ts";
import { isOurToxic, isSignOfDisabling } from "./link-faults.ts";

type HealOptions = proxies.CallOptions & {
  /** False if others use this toxiproxy server too: healing then removes only our toxics and never calls `/reset`. */
  mayReset?: boolean;
  /** False if the fault did not disable the proxy; ignored for a disabled proxy with our sign, which we disabled. */
  mayEnable?: boolean;
  restart?: (() => Promise<void>) | undefined;
};

const isGone = (error: unknown): boolean =>
  error instanceof proxies.ToxiproxyError && (error.status === 404 || error.code === "ECONNREFUSED");

export const isDisabledByUs = ({ enabled, toxics }: proxies.ProxyState): boolean =>
  !enabled && toxics.some(isSignOfDisabling);

export const hasOurToxics = ({ toxics }: proxies.ProxyState): boolean => toxics.some(isOurToxic);

/** How long to wait for a step that was not answered; toxiproxy's own timeout is 25 s. */
const LATE_MS = 10_000;
/** A second pass, in case a late step undid the first. */
const PASSES = 2;

/** Never rejects: a failed heal is reported, so that the other links are healed as well. */
export const heal = async (toxiproxy: proxies.Toxiproxy, name: string, options: HealOptions = {}) => {
  const { mayReset = true, restart, mayEnable: enabling = true, ...call } = options;
  let mayEnable = enabling;
  const proxy = toxiproxy.proxy(name);
  const did: string[] = [];
  const trouble: string[] = [];
  let gone = false;
  let serving = "unseen" as Serving;
  let state = null as proxies.ProxyState | null;
  let whole = false;

  const ours = (): proxies.ProxyState["toxics"] =>
    (state?.toxics ?? []).filter((toxic) => mayReset || isOurToxic(toxic));
  const isToBeEnabled = (): boolean => state?.enabled === false && mayEnable;
  const attempt = async (what: string, step: () => Promise<unknown>): Promise<void> => {
    did.push(what);
    await step().catch((error: unknown) => void trouble.push((error as Error).message));
  };
  /** Reads the proxy. It is whole if nothing of ours is left on it, even if somebody else disabled it. */
  const look = async (): Promise<void> => {
    state = await proxy.read(call).catch((error: unknown) => {
      gone ||= isGone(error);
      trouble.push((error as Error).message);
      return null;
    });
    if (did.length === 0 && state !== null && isDisabledByUs(state)) mayEnable = true;
    whole = false;
    if (state === null || isToBeEnabled() || ours().length > 0) return;
    serving = state.enabled ? await isServing(state, toxiproxy.apiUrl) : "refuses";
    whole = serving !== "refuses" || !state.enabled;
  };
  const removeToxics = async (isEnabled: boolean): Promise<void> => {
    for (const toxic of ours())
      await attempt(`DELETE toxic ${toxic.name}`, () => proxies.takeToxicAway(proxy, toxic, isEnabled, call));
  };
  const enable = (enabled: boolean): Promise<void> =>
    attempt(`enabled=${enabled}`, () => proxy.setEnabled(enabled, call));
  const ladder: (() => Promise<void>)[] = [
    async () => {
      await removeToxics(state?.enabled === true && mayEnable);
      if (isToBeEnabled()) await enable(true);
    },
    async () => {
      if (mayReset) await attempt("POST /reset", () => toxiproxy.reset(call));
    },
    async () => {
      // This step disables the proxy, so it may be enabled from here on.
      mayEnable = true;
      await enable(false);
      await removeToxics(false);
      await enable(true);
    },
    async () => {
      if (restart !== undefined) await attempt("restart of the server", restart);
    },
  ];
  const isOver = (): boolean => gone || call.signal?.aborted === true;

  await look();
  for (let pass = 0; pass < PASSES && !isOver(); pass += 1) {
    for (const rung of ladder) {
      if (whole || isOver()) break;
      await rung();
      await look();
    }
    if (!whole || toxiproxy.underWay() === 0) break;
    await toxiproxy.settled(AbortSignal.any([call.signal ?? [], AbortSignal.timeout(LATE_MS)].flat()));
    await look();
    if (toxiproxy.underWay() > 0) {
      whole = false;
      trouble.push(
        "a step that was not answered in time may still be carried out; heal once more, or restart toxiproxy",
      );
      break;
    }
  }
  const disabledByOthers = state?.enabled === false && !mayEnable && ours().length === 0;
  if (state?.enabled === true && serving === "refuses") trouble.push(`nobody listens at ${state.listen}`);
  if (state !== null && !whole && trouble.length === 0) {
    const left = [...ours().map((toxic) => toxic.name), ...(state.enabled ? [] : ["disabled"])];
    trouble.push(`every step was confirmed, but this is still there: ${left.join(", ")}`);
  }
  if (disabledByOthers) trouble.push("somebody else disabled it, so it stays disabled");
  return {
    healed: whole && !disabledByOthers,
    /** The proxy or its server no longer exists, and neither does the fault. */
    gone,
    /** Nothing of ours is left on the proxy, but somebody else has disabled it. */
    disabledByOthers,
    serving,
    did,
    trouble,
  };
};

/** Heals one proxy of a shared server; leaves what is not ours. Throws if it is not whole or its upstream is down. */
const proxy: UndoPorts["proxy"] = async (undo, { signal, callMs }) => {
  const toxiproxy = proxies.openToxiproxy(undo.api_url, { signal, callMs });
  try {
    const healing = await heal(toxiproxy, undo.proxy, { signal, callMs, mayReset: false, mayEnable: undo.disables });
    // Toxics exist only in the server's memory.
    if (healing.gone) return "gone with its toxiproxy";
    const did = healing.did.join(", ") || "nothing of ours was on it";
    if (healing.disabledByOthers) return `${did}; somebody else disabled the proxy, so it stays disabled`;
    if (!healing.healed) throw new Error(`proxy "${undo.proxy}" is not whole: ${healing.trouble.join("; ")}`);
    if (healing.serving === "closes") {
      throw new Error(`${did}; but proxy "${undo.proxy}" hangs up at once, because nobody answers at its upstream`);
    }
    return healing.did.length === 0 ? "it was whole" : did;
  } finally {
    await toxiproxy.close();
  }
};

/** Restores the fields of control planes and reads them back. Tries every plane. */
export const putBack = async (planes: ChangeUndo["planes"]): Promise<string> => {
  const troubles: string[] = [];
  for (const { url, was } of planes) {
    try {
      await controlSend("PATCH", `${url}/deployment`, was);
      const now = await controlGet<Record<string, unknown>>(`${url}/deployment`);
      const differs = Object.keys(was).filter((field) => now[field] !== was[field]);
      if (differs.length > 0) throw new Error(`${url}/deployment reads back another ${differs.join(", ")}`);
    } catch (error) {
      troubles.push((error as Error).message);
    }
  }
  if (troubles.length > 0) throw new Error(troubles.join("; "));
  return `put ${planes.flatMap(({ was }) => Object.keys(was)).join(", ")} back as before`;
};

/** Undoes changes to proxies and control planes, for supervision/, which knows neither. */
export const UNDO_PORTS: UndoPorts = { proxy, change: ({ planes }) => putBack(planes) };
