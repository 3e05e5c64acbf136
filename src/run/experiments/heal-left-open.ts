/**
 * The body of `chaos --heal`: takes back what the journals of earlier runs name. What is ours on this machine needs nothing more;
 * what is on somebody's deployment needs its target file, where commands and addresses stand. On the proxies of that file also a
 * fault of ours is found that no journal knows of, by the name of its toxic.
 */
import { dirname } from "node:path";
import { hasOurToxics, heal, isDisabledByUs, UNDO_PORTS } from "../../faults/healing.ts";
import { type GivenTarget, undoByName } from "../../faults/undo-by-name.ts";
import { notesIn } from "../../supervision/journal.ts";
import { killMarked } from "../../supervision/processes.ts";
import { type Effect, type TargetName, type UndoResult, undoAll } from "../../supervision/undo.ts";
import { isServing } from "../../tools/link-probe.ts";
import type { ProxyState, Toxiproxy } from "../../tools/toxiproxy.ts";
import { eachProxy, faultsLeftOn, journalsIn, readLeftOpen } from "./left-open.ts";

/** Each journal's whole rescue, each proxy's, and each control call to toxiproxy. */
const JOURNAL_MS = 60_000;
const PROXY_MS = 60_000;
const CALL_MS = 5_000;
const GRACE_MS = 2_000;

/** `needs`: the deployment whose target file has to be given for it. */
export type Healed = UndoResult & { needs?: TargetName };

export type HealedRun = {
  journal: string;
  /** The run that wrote it is still going and was left alone, with what it has broken now. */
  running: readonly string[] | null;
  taken: readonly Healed[];
};

type HealedAll = {
  looked: number;
  runs: HealedRun[];
  /** The proxies of the target files that were given, as they are in the end; `did` is empty where nothing was to be done. */
  proxies: Healed[];
  isWhole: boolean;
};

/** `null`: nothing was left open. */
const healRun = async (journal: string, given: readonly GivenTarget[]): Promise<HealedRun | null> => {
  const { run, effects, faults, isRunning } = readLeftOpen(journal);
  if (effects.length === 0) return null;
  if (isRunning) return { journal, running: faults.map(({ name }) => name), taken: [] };
  const resolved: Effect[] = [];
  const open: Healed[] = [];
  for (const { id, kind, name, undo } of effects) {
    const found = undoByName(undo, { run, folder: dirname(journal), given });
    if ("undo" in found) resolved.push({ id, kind, name, undo: found.undo });
    else open.push({ kind, name, did: null, trouble: found.trouble, ...(found.needs && { needs: found.needs }) });
  }
  const notes = notesIn(journal, "heal");
  try {
    const signal = AbortSignal.timeout(JOURNAL_MS);
    const limits = { ports: UNDO_PORTS, signal, callMs: CALL_MS, graceMs: GRACE_MS };
    const taken: Healed[] = await undoAll(resolved, notes, limits);
    const strays = run === null ? [] : await killMarked(run.mark);
    for (const { pid } of strays) taken.push({ kind: "child", name: `process ${pid}`, did: "killed", trouble: null });
    return { journal, running: null, taken: [...taken, ...open] };
  } finally {
    notes.close();
  }
};

/** Why it does not serve, in words that follow its name; `null` where it does, as far as can be seen from here. */
const whyNotServing = async (state: ProxyState, apiUrl: string): Promise<string | null> => {
  if (!state.enabled)
    return "is disabled, and nothing on it shows that a floodgate did that: enable it, if nobody wants it so";
  const serving = await isServing(state, apiUrl);
  if (serving === "refuses") return `is enabled, but nobody listens at ${state.listen}`;
  if (serving === "closes") return `hangs up at once: nobody answers at its upstream ${state.upstream}`;
  return null;
};

const healProxy = async (toxiproxy: Toxiproxy, name: string): Promise<Healed> => {
  let did = "";
  let trouble: string | null;
  try {
    const proxy = toxiproxy.proxy(name);
    const before = await proxy.read();
    if (hasOurToxics(before) || isDisabledByUs(before)) {
      const how = { signal: AbortSignal.timeout(PROXY_MS), callMs: CALL_MS, mayReset: false, mayEnable: false };
      const healing = await heal(toxiproxy, name, how);
      if (!healing.healed && !healing.disabledByOthers) throw new Error(`is not whole: ${healing.trouble.join("; ")}`);
      did = healing.did.join(", ");
    }
    trouble = await whyNotServing(await proxy.read(), toxiproxy.apiUrl);
  } catch (error) {
    trouble = (error as Error).message;
  }
  return { kind: "proxy", name, did: trouble === null ? did : null, trouble };
};

/** `out`: one run folder, in place of all under `reports/runs` or beside them. `given`: target files, whose commands and proxies may be used. */
export const healLeftOpen = async (
  reports: string,
  { out, onlyOut = true, given = [] }: { out?: string; onlyOut?: boolean; given?: readonly GivenTarget[] } = {},
): Promise<HealedAll> => {
  const beside = out === undefined || onlyOut ? [] : journalsIn(reports);
  const journals = [...beside, ...journalsIn(reports, out)];
  const runs: HealedRun[] = [];
  for (const journal of journals) {
    const healed = await healRun(journal, given).catch((error: Error): HealedRun => {
      // The others are healed all the same.
      const trouble = `what was left open is not known: ${error.message}`;
      return { journal, running: null, taken: [{ kind: "journal", name: journal, did: null, trouble }] };
    });
    if (healed !== null) runs.push(healed);
  }
  const proxies: Healed[] = [];
  for (const { target } of given) {
    // A run that is still going heals what it has broken itself.
    if (faultsLeftOn(target, reports).some(({ isRunning }) => isRunning)) continue;
    proxies.push(...(await eachProxy(target, CALL_MS, healProxy)));
  }
  // With a target file it is about that deployment; what others need is named all the same.
  const isMended = ({ trouble, needs }: Healed): boolean =>
    trouble === null || (needs !== undefined && given.length > 0);
  const isWhole =
    runs.every(({ running, taken }) => (running ?? []).length === 0 && taken.every(isMended)) &&
    proxies.every(({ trouble }) => trouble === null);
  return { looked: journals.length, runs, proxies, isWhole };
};

/** For a run that is to heal first: reports each fault that was taken back, or could not be. */
export const healBeforehand = async (
  reports: string,
  given: readonly GivenTarget[],
  say: (text: string) => void,
): Promise<void> => {
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
