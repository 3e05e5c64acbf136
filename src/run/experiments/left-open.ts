/**
 * Finds what earlier runs left broken, and heals it (`chaos --heal`). Journals of runs record what was left open; a
 * proxy that answers overrules them, and the names of its toxics also show faults that no journal records. A fault by
 * commands counts as left until it is healed. Commands and addresses come from the target file that the user gives.
 */
import { existsSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { type GivenTarget, hasOurToxics, heal, isDisabledByUs, UNDO_PORTS, undoByName } from "../../faults/healing.ts";
import { isOurToxic } from "../../faults/link-faults.ts";
import { GuardError, type PreparedTarget } from "../../stages/stage-plan.ts";
import * as written from "../../supervision/journal.ts";
import { hasEnded, killMarked } from "../../supervision/processes.ts";
import { UsageError } from "../../supervision/user-file.ts";
import type { Target } from "../../target/target.ts";
import { isSameTarget } from "../../target/target-file.ts";
import { isServing } from "../../tools/link-probe.ts";
import { openToxiproxy, type ProxyState, type Toxiproxy, ToxiproxyError } from "../../tools/toxiproxy.ts";
import { TargetUnreachableError } from "../../verify/reach.ts";

/** Time limits: to heal all of one journal or one proxy, and for one control call to toxiproxy. */
const HEAL_MS = 60_000;
const CALL_MS = 5_000;
const GRACE_MS = 2_000;

const journalsIn = (reports: string, out?: string): string[] => {
  const runs = join(resolve(reports), "runs");
  const folders = out === undefined ? (existsSync(runs) ? readdirSync(runs).sort() : []) : [resolve(out)];
  return folders.map((folder) => resolve(runs, folder, "journal.ndjson")).filter((path) => existsSync(path));
};

/** Reads what a journal leaves open. Throws if it cannot be read, or if another user could have written it. */
const readLeftOpen = (journal: string) => {
  const { entries } = written.readJournal(journal);
  const run = written.runOf(entries);
  // An effect without an undo (a session, a key) is left out and stays open in the journal, for people to see.
  const effects = written.openEffects(entries).filter(({ kind, undo }) => undo.how !== "nothing" || kind === "child");
  const faults = effects.filter(({ kind }) => kind === "fault");
  return { run, isRunning: run !== null && !hasEnded(run), effects, faults };
};

type OnTarget = Extract<written.NamedUndo, { target: written.TargetName }>;

const partsOn = (target: Target, undo: written.NamedUndo): OnTarget[] => {
  if (undo.how === "all") return undo.undos.flatMap((one) => partsOn(target, one));
  return "target" in undo && isSameTarget(undo.target, target) ? [undo] : [];
};

/** The faults on a deployment that journals leave open. Skips unreadable journals; `chaos --heal` reports them. */
const faultsLeftOn = (target: Target, reports: string) =>
  journalsIn(reports).flatMap((journal) => {
    try {
      const { isRunning, faults } = readLeftOpen(journal);
      return faults
        .map(({ name, undo }) => ({ run: dirname(journal), isRunning, name, parts: partsOn(target, undo) }))
        .filter(({ parts }) => parts.length > 0);
    } catch {
      return [];
    }
  });

/** Calls `look` once for each proxy of the target file, with the links that the proxy serves. */
const eachProxy = async <T>(
  { toxiproxy: stated }: Target,
  look: (toxiproxy: Toxiproxy, name: string, links: readonly string[]) => Promise<T>,
): Promise<T[]> => {
  if (stated === undefined) return [];
  const links = Object.entries(stated.proxies ?? {});
  const names = [...new Set(links.flatMap(([, name]) => name || []))];
  const toxiproxy = openToxiproxy(stated.api_url, { callMs: CALL_MS });
  const on = (proxy: string): string[] => links.flatMap(([link, name]) => (name === proxy ? [link] : []));
  return Promise.all(names.map((name) => look(toxiproxy, name, on(name)))).finally(() => toxiproxy.close());
};

type Suspect = Pick<PreparedTarget, "file" | "target">;

const howToHeal = ({ file }: Suspect): string =>
  `\`npx floodgate chaos --heal --target ${file}\` takes it back, and so does --heal with this command`;

/** Faults by commands and operator's changes count as still in, because no proxy shows them. */
const isStillIn = (part: OnTarget, states: readonly ProxyState[]): boolean => {
  if (part.how !== "heal-proxy") return true;
  const state = states.find(({ name }) => name === part.proxy);
  return state !== undefined && (hasOurToxics(state) || (!state.enabled && part.disables));
};

export const leftBrokenIn = async (suspect: Suspect, reports: string): Promise<string[]> => {
  // A toxiproxy that does not answer is taken for gone, and its faults with it.
  const read = (toxiproxy: Toxiproxy, name: string) =>
    toxiproxy
      .proxy(name)
      .read()
      .catch(() => null);
  const states = (await eachProxy(suspect.target, read)).filter((state) => state !== null);
  const left = faultsLeftOn(suspect.target, reports)
    .filter(({ parts }) => parts.some((part) => isStillIn(part, states)))
    .map(({ name, run, isRunning }) =>
      isRunning
        ? `${name} is broken by the run of ${run}: that run is still going and heals it by itself`
        : `${name} was left broken by the run of ${run}: ${howToHeal(suspect)}`,
    );
  if (left.length > 0) return [...new Set(left)];
  return states.filter(hasOurToxics).map(({ name, toxics }) => {
    const ours = toxics.filter(isOurToxic).map((toxic) => `"${toxic.name}"`);
    return `the proxy "${name}" has ${ours.join(", ")}: by its name a floodgate put it there: ${howToHeal(suspect)}`;
  });
};

/** Throws `GuardError` if an earlier run left a fault, which the next run would judge as the deployment's. */
export const requireNothingLeft = async (targets: readonly Suspect[], reports: string): Promise<void> => {
  const reasons = (await Promise.all(targets.map((target) => leftBrokenIn(target, reports)))).flat();
  if (reasons.length > 0) throw new GuardError(reasons);
};

const FOREIGN = "somebody else did that, so it is not touched: mend it, or name another proxy";

/** Throws `GuardError` unless each proxy to be broken is whole: two faults at once would be judged as one. */
export const requireWholeProxies = async (target: Target, broken: ReadonlySet<string>): Promise<void> => {
  const reasons = await eachProxy(target, async (toxiproxy, name, links) => {
    const link = links.find((one) => broken.has(one));
    if (link === undefined) return [];
    const { enabled, toxics } = await toxiproxy.proxy(name).read();
    const has = toxics.map((toxic) => `it has the toxic "${toxic.name}" (${toxic.type})`);
    const wrong = [...(enabled ? [] : ["it is disabled"]), ...has].join(", ");
    return wrong === "" ? [] : [`toxiproxy.proxies.${link}: the proxy "${name}" is not whole: ${wrong}. ${FOREIGN}`];
  }).catch((error: Error) => {
    if (error instanceof ToxiproxyError && error.status === 404) {
      throw new UsageError(`expected the proxies of \`toxiproxy.proxies\` to exist, but ${error.message}`);
    }
    throw new TargetUnreachableError(`the toxiproxy of the target file cannot be used: ${error.message}`);
  });
  if (reasons.flat().length > 0) throw new GuardError(reasons.flat());
};

/** `needs`: the deployment whose target file is needed for the undo. */
export type Healed = written.UndoResult & { needs?: written.TargetName };

export type HealedRun = {
  journal: string;
  /** What the run has broken now, if it is still going and was left alone; else `null`. */
  running: readonly string[] | null;
  taken: readonly Healed[];
};

/** Heals what one run left open; `null` if it left nothing. */
const healRun = async (journal: string, given: readonly GivenTarget[]): Promise<HealedRun | null> => {
  const { run, effects, faults, isRunning } = readLeftOpen(journal);
  if (effects.length === 0) return null;
  if (isRunning) return { journal, running: faults.map(({ name }) => name), taken: [] };
  const resolved: written.Effect[] = [];
  const open: Healed[] = [];
  for (const { id, kind, name, undo } of effects) {
    const found = undoByName(undo, { run, folder: dirname(journal), given });
    if ("undo" in found) resolved.push({ id, kind, name, undo: found.undo });
    else open.push({ kind, name, did: null, trouble: found.trouble, ...(found.needs && { needs: found.needs }) });
  }
  using atEnd = new DisposableStack();
  const notes = atEnd.adopt(written.notesIn(journal, "heal"), ({ close }) => close());
  const signal = AbortSignal.timeout(HEAL_MS);
  const limits = { ports: UNDO_PORTS, signal, callMs: CALL_MS, graceMs: GRACE_MS };
  const taken = await written.undoAll(resolved, notes, limits);
  const strays = run === null ? [] : await killMarked(run.mark);
  const killed = strays.map(
    ({ pid }): Healed => ({ kind: "child", name: `process ${pid}`, did: "killed", trouble: null }),
  );
  return { journal, running: null, taken: [...taken, ...killed, ...open] };
};

/** Says why the proxy does not serve, as a predicate of a sentence; `null` if it serves as far as this machine sees. */
const whyNotServing = async (state: ProxyState, apiUrl: string): Promise<string | null> => {
  if (!state.enabled)
    return "is disabled, and nothing on it shows that a floodgate did that: enable it, if nobody wants it so";
  const serving = await isServing(state, apiUrl);
  if (serving === "refuses") return `is enabled, but nobody listens at ${state.listen}`;
  return serving === "closes" ? `hangs up at once: nobody answers at its upstream ${state.upstream}` : null;
};

/** An empty `did` means that nothing was to be done. */
const healProxy = async (toxiproxy: Toxiproxy, name: string): Promise<Healed> => {
  const healed = { kind: "proxy", name, did: "", trouble: null } as const;
  try {
    const proxy = toxiproxy.proxy(name);
    const before = await proxy.read();
    const how = { signal: AbortSignal.timeout(HEAL_MS), callMs: CALL_MS, mayReset: false, mayEnable: false };
    const healing = hasOurToxics(before) || isDisabledByUs(before) ? await heal(toxiproxy, name, how) : null;
    if (healing?.healed === false && !healing.disabledByOthers)
      throw new Error(`is not whole: ${healing.trouble.join("; ")}`);
    const trouble = await whyNotServing(await proxy.read(), toxiproxy.apiUrl);
    return { ...healed, did: trouble === null ? (healing?.did.join(", ") ?? "") : null, trouble };
  } catch (error) {
    return { ...healed, did: null, trouble: (error as Error).message };
  }
};

/**
 * `out`: one run folder, in place of all under `reports/runs` or, without `onlyOut`, beside them. `given`: target files
 * whose commands and proxies may be used.
 */
export const healLeftOpen = async (
  reports: string,
  { out, onlyOut = true, given = [] }: { out?: string; onlyOut?: boolean; given?: readonly GivenTarget[] } = {},
) => {
  const beside = out === undefined || onlyOut ? [] : journalsIn(reports);
  const journals = [...beside, ...journalsIn(reports, out)];
  const runs: HealedRun[] = [];
  for (const journal of journals) {
    const healed = await healRun(journal, given).catch((error: Error): HealedRun => {
      const trouble = `what was left open is not known: ${error.message}`;
      return { journal, running: null, taken: [{ kind: "journal", name: journal, did: null, trouble }] };
    });
    if (healed !== null) runs.push(healed);
  }
  const proxies: Healed[] = [];
  for (const { target } of given) {
    // A run that is still going heals what it has broken itself.
    if (faultsLeftOn(target, reports).some(({ isRunning }) => isRunning)) continue;
    proxies.push(...(await eachProxy(target, healProxy)));
  }
  // With a target file only its deployment counts; what needs another target file is still returned.
  const isMended = ({ trouble, needs }: Healed) => trouble === null || (needs !== undefined && given.length > 0);
  const isWhole =
    runs.every(({ running, taken }) => (running ?? []).length === 0 && taken.every(isMended)) &&
    proxies.every(({ trouble }) => trouble === null);
  return { looked: journals.length, runs, proxies, isWhole };
};

/** Heals before a run begins, and reports each fault that was healed or could not be. */
export const healBeforehand = async (reports: string, given: readonly GivenTarget[], say: (text: string) => void) => {
  const { runs, proxies } = await healLeftOpen(reports, { given });
  for (const { kind, name, did, trouble } of runs.flatMap(({ taken }) => taken)) {
    if (kind === "fault") say(`${name} of an earlier run: ${did ?? `still broken: ${trouble}`}`);
    else if (trouble !== null) say(`${name} of an earlier run: ${trouble}`);
  }
  for (const { name, did, trouble } of proxies) {
    if (trouble !== null) say(`the proxy "${name}" ${trouble}`);
    else if (did !== "") say(`the proxy "${name}" had a fault of an earlier run: ${did}`);
  }
};
