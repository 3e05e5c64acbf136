/**
 * Makes one proxied link whole again. Removing a toxic can hang for ever inside toxiproxy (a peer that does not read
 * holds its lock), so four steps are tried, with deadlines: DELETE the toxics, `/reset`, disable and enable, restart
 * our server. A link is whole if its proxy is enabled, listens and has no toxic of ours, and every step was answered.
 */

import { lstatSync, readFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { controlGet, controlSend } from "../client/control-planes.ts";
import type { ChangeUndo, NamedUndo, RunItself, TargetName, Undo, UndoPorts } from "../supervision/journal.ts";
import { whyNotOwn } from "../supervision/private-file.ts";
import { carriesMark, hasEnded } from "../supervision/processes.ts";
import { FOLDER_MARK } from "../supervision/supervisor.ts";
import { tryEach } from "../supervision/waiting.ts";
import { forReplicas, type Target } from "../target/target.ts";
import { isSameTarget } from "../target/target-file.ts";
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

export const isDisabledByUs = ({ enabled, toxics }: proxies.ProxyState) => !enabled && toxics.some(isSignOfDisabling);

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

  const ours = () => (state?.toxics ?? []).filter((toxic) => mayReset || isOurToxic(toxic));
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
  const enable = (enabled: boolean) => attempt(`enabled=${enabled}`, () => proxy.setEnabled(enabled, call));
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
  await using toxiproxy = proxies.openToxiproxy(undo.api_url, { signal, callMs });
  const healing = await heal(toxiproxy, undo.proxy, { signal, callMs, mayReset: false, mayEnable: undo.disables });
  // Toxics exist only in the server's memory.
  if (healing.gone) return "gone with its toxiproxy";
  const did = healing.did.join(", ") || "nothing of ours was on it";
  if (healing.disabledByOthers) return `${did}; somebody else disabled the proxy, so it stays disabled`;
  if (!healing.healed) throw new Error(`proxy "${undo.proxy}" is not whole: ${healing.trouble.join("; ")}`);
  if (healing.serving !== "closes") return healing.did.length === 0 ? "it was whole" : did;
  throw new Error(`${did}; but proxy "${undo.proxy}" hangs up at once, because nobody answers at its upstream`);
};

/** Restores the fields of control planes and reads them back. Tries every plane. */
export const putBack = async (planes: ChangeUndo["planes"]): Promise<string> => {
  await tryEach(planes, async ({ url, was }) => {
    await controlSend("PATCH", `${url}/deployment`, was);
    const now = await controlGet<Record<string, unknown>>(`${url}/deployment`);
    const differs = Object.keys(was).filter((field) => now[field] !== was[field]);
    if (differs.length > 0) throw new Error(`${url}/deployment reads back another ${differs.join(", ")}`);
  });
  return `put ${planes.flatMap(({ was }) => Object.keys(was)).join(", ")} back as before`;
};

/** Undoes changes to proxies and control planes, for supervision/, which knows neither. */
export const UNDO_PORTS: UndoPorts = { proxy, change: ({ planes }) => putBack(planes) };

// Finds what undoes an effect named in a journal. Nothing executable is read from the journal: commands, proxies and
// control planes come from the user's target files; processes and folders must carry the run's mark.

export type GivenTarget = { target: Target; file: string };

/** `needs`: the deployment whose target file is missing. */
type ByName = { undo: Undo } | { trouble: string; needs: TargetName | null };

/** `run`: the run that wrote the journal, if the journal names it. `folder`: the run's folder. */
type Known = { run: RunItself | null; folder: string; given: readonly GivenTarget[] };

const not = (trouble: string): ByName => ({ trouble, needs: null });

const onTarget = (named: Extract<NamedUndo, { target: TargetName }>, given: readonly GivenTarget[]): ByName => {
  const its = given.find(({ target }) => isSameTarget(named.target, target));
  if (its === undefined) {
    const { name, base_url, file } = named.target;
    const was = file === undefined ? "" : ` (it was ${file})`;
    const how = "`npx floodgate chaos --heal --target FILE`";
    return { trouble: `needs the target file of ${name ?? base_url}: ${how}${was}`, needs: named.target };
  }
  const { faults = {}, toxiproxy, control, scale } = its.target;
  switch (named.how) {
    case "command":
      if (named.replicas !== undefined) {
        if (scale === undefined) return not(`${its.file} has no scale any more`);
        const commands = forReplicas(scale.set, named.replicas);
        return { undo: { ...named, commands, cwd: dirname(resolve(its.file)) } };
      }
      if (!Object.hasOwn(faults, named.fault)) return not(`${its.file} has no faults["${named.fault}"] any more`);
      return { undo: { ...named, commands: faults[named.fault]?.heal ?? [], cwd: dirname(resolve(its.file)) } };
    case "heal-proxy": {
      const isNamed = Object.values(toxiproxy?.proxies ?? {}).includes(named.proxy);
      if (toxiproxy === undefined || !isNamed) return not(`${its.file} names no proxy "${named.proxy}" any more`);
      return { undo: { ...named, api_url: toxiproxy.api_url } };
    }
    case "deployment": {
      const urls = { api: control?.api ?? [], keys: [control?.keys], limiter: [control?.limiter] };
      const planes = named.planes.map((state) => ({ ...state, url: urls[state.plane][state.at] ?? "" }));
      const missing = planes.find(({ url }) => url === "");
      if (missing === undefined) return { undo: { ...named, planes } };
      return not(`${its.file} has no control plane ${missing.plane} number ${missing.at + 1}`);
    }
  }
};

const GONE: ByName = { undo: { how: "nothing" } };

const onProcess = (named: Extract<NamedUndo, { how: "end-process" }>, { run }: Known): ByName => {
  if (hasEnded(named)) return GONE;
  if (run === null || !carriesMark(named.pid, run.mark))
    return not(`process ${named.pid} does not carry the mark of this run: left alone`);
  return { undo: named };
};

const OUR_PREFIX = "floodgate-";

/** Allows removal only of a folder of this user with the run's mark, in the run folder or with our prefix. */
const onFolder = (path: string, { run, folder }: Known): ByName => {
  const alone = (why: string): ByName => not(`the folder ${path} ${why}: left alone`);
  const about = lstatSync(path, { throwIfNoEntry: false });
  if (about === undefined) return GONE;
  if (!about.isDirectory()) return alone("is no folder");
  const isPlaced = resolve(path) === path && (dirname(path) === folder || basename(path).startsWith(OUR_PREFIX));
  if (!isPlaced) return alone(`is not in the run's folder, and its name does not begin with ${OUR_PREFIX}`);
  const why = whyNotOwn(about);
  if (why !== null) return alone(why);
  const mark = join(path, FOLDER_MARK);
  const isFile = lstatSync(mark, { throwIfNoEntry: false })?.isFile() === true;
  const isMarked = run !== null && isFile && readFileSync(mark, "utf8") === run.mark;
  return isMarked ? { undo: { how: "remove-folder", path } } : alone("does not carry the mark of this run");
};

export const undoByName = (named: NamedUndo, known: Known): ByName => {
  switch (named.how) {
    case "nothing":
      return GONE;
    case "end-process":
      return onProcess(named, known);
    case "remove-folder":
      return onFolder(named.path, known);
    case "all": {
      const parts = named.undos.map((one) => undoByName(one, known));
      const first = parts.find((part) => "trouble" in part);
      if (first !== undefined) return first;
      return { undo: { how: "all", undos: parts.flatMap((part) => ("undo" in part ? [part.undo] : [])) } };
    }
    default:
      return onTarget(named, known.given);
  }
};
