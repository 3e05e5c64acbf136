/**
 * What of ours is still in a deployment, and whose is it? The journals of runs say what was left; a proxy that can be asked has the
 * last word, and shows by the names of its toxics what no journal knows of. A fault by commands counts as left until it is healed.
 */
import { lstatSync, readdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { hasOurToxics } from "../../faults/healing.ts";
import { isOurToxic } from "../../faults/link-faults.ts";
import { GuardError, type PreparedTarget } from "../../stages/prepare-target.ts";
import { type OpenEffect, openEffects, type RunItself, readJournal, runOf } from "../../supervision/journal.ts";
import { isAlive } from "../../supervision/processes.ts";
import type { NamedUndo, TargetName } from "../../supervision/undo.ts";
import type { Target } from "../../target/target.ts";
import { isSameTarget } from "../../target/target-urls.ts";
import { openToxiproxy, type ProxyState, type Toxiproxy, ToxiproxyError } from "../../tools/toxiproxy.ts";
import { TargetUnreachableError } from "../../verify/reach.ts";
import { UsageError } from "../exit-codes.ts";

const JOURNAL = "journal.ndjson";
const CALL_MS = 3_000;

const isThere = (path: string): boolean => {
  try {
    return lstatSync(path, { throwIfNoEntry: false }) !== undefined;
  } catch {
    return false;
  }
};

/** The journals of all runs under `reports/runs`, or of one run folder. */
export const journalsIn = (reports: string, out?: string): string[] => {
  const runs = join(resolve(reports), "runs");
  const folders = out === undefined ? (isThere(runs) ? readdirSync(runs).sort() : []) : [resolve(out)];
  return folders.map((folder) => resolve(runs, folder, JOURNAL)).filter(isThere);
};

type LeftOpen = {
  journal: string;
  run: RunItself | null;
  isRunning: boolean;
  /** All that is open and may be taken back. */
  effects: OpenEffect[];
  /** Those of them that are broken on purpose. */
  faults: OpenEffect[];
};

/** Throws a sentence where the journal cannot be read, or could be somebody else's. */
export const readLeftOpen = (journal: string): LeftOpen => {
  const { entries } = readJournal(journal);
  const run = runOf(entries);
  // What nobody can take back (a session, a key) stays open, for people to see.
  const effects = openEffects(entries).filter(({ kind, undo }) => undo.how !== "nothing" || kind === "child");
  const faults = effects.filter(({ kind }) => kind === "fault");
  return { journal, run, isRunning: run !== null && isAlive(run), effects, faults };
};

type OnTarget = Extract<NamedUndo, { target: TargetName }>;

const partsOn = (target: Target, undo: NamedUndo): OnTarget[] => {
  if (undo.how === "all") return undo.undos.flatMap((one) => partsOn(target, one));
  return "target" in undo && isSameTarget(undo.target, target) ? [undo] : [];
};

/** The faults on a deployment that journals leave open; a journal that cannot be read is for `chaos --heal` to report. */
export const faultsLeftOn = (target: Target, reports: string) =>
  journalsIn(reports).flatMap((journal) => {
    try {
      const { isRunning, faults } = readLeftOpen(journal);
      return faults.flatMap(({ name, undo }) => {
        const parts = partsOn(target, undo);
        return parts.length === 0 ? [] : [{ run: dirname(journal), isRunning, name, parts }];
      });
    } catch {
      return [];
    }
  });

/** Looks at each proxy that the target file names, once, with the links that it stands on. */
export const eachProxy = async <T>(
  { toxiproxy: stated }: Target,
  callMs: number,
  look: (toxiproxy: Toxiproxy, name: string, links: readonly string[]) => Promise<T>,
): Promise<T[]> => {
  if (stated === undefined) return [];
  const named = Map.groupBy(Object.entries(stated.proxies ?? {}), ([, name]) => name);
  const toxiproxy = openToxiproxy(stated.api_url, { callMs });
  try {
    return await Promise.all(
      [...named].flatMap(([name, links]) =>
        name
          ? look(
              toxiproxy,
              name,
              links.map(([link]) => link),
            )
          : [],
      ),
    );
  } finally {
    await toxiproxy.close();
  }
};

type Suspect = Pick<PreparedTarget, "file" | "target">;

const howToHeal = ({ file }: Suspect): string =>
  `\`npx floodgate chaos --heal --target ${file}\` takes it back, and so does --heal with this command`;
const BY_NAME = "by its name a floodgate put it there";

/** Nobody can be asked what commands or an operator's change have left. */
const isStillIn = (part: OnTarget, states: readonly ProxyState[]): boolean => {
  if (part.how !== "heal-proxy") return true;
  const state = states.find(({ name }) => name === part.proxy);
  return state !== undefined && (hasOurToxics(state) || (!state.enabled && part.disables));
};

/** Every fault of ours that is still in the deployment, in sentences. */
export const leftBrokenIn = async (suspect: Suspect, reports: string): Promise<string[]> => {
  // Where toxiproxy is gone, every fault in it is gone as well.
  const read = await eachProxy(suspect.target, CALL_MS, (toxiproxy, name) =>
    toxiproxy
      .proxy(name)
      .read()
      .catch(() => null),
  );
  const states = read.filter((state) => state !== null);
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
    return `the proxy "${name}" has ${ours.join(", ")}: ${BY_NAME}: ${howToHeal(suspect)}`;
  });
};

/** Before a run, which would judge the fault of an earlier one. Throws `GuardError`. */
export const requireNothingLeft = async (targets: readonly Suspect[], reports: string): Promise<void> => {
  const reasons: string[] = [];
  for (const target of targets) reasons.push(...(await leftBrokenIn(target, reports)));
  if (reasons.length > 0) throw new GuardError(reasons);
};

const adviceFor = (state: ProxyState, suspect: Suspect, reports: string): string => {
  const owner = faultsLeftOn(suspect.target, reports).findLast(({ parts }) =>
    parts.some((part) => part.how === "heal-proxy" && part.proxy === state.name),
  );
  if (owner?.isRunning === true) return `the run of ${owner.run} is still going and heals it by itself`;
  if (owner !== undefined) return `an earlier run left it (${owner.run}): ${howToHeal(suspect)}`;
  return hasOurToxics(state)
    ? `${BY_NAME}: ${howToHeal(suspect)}`
    : "somebody else did that, so it is not touched: mend it, or name another proxy";
};

/**
 * Before anything is broken on somebody's toxiproxy: a fault on top of another one would be judged for both. Throws `GuardError`
 * where a proxy is not whole, `UsageError` where it is not there, `TargetUnreachableError` where toxiproxy is not.
 */
export const requireWholeProxies = async (
  suspect: Suspect,
  broken: ReadonlySet<string>,
  reports: string,
): Promise<void> => {
  const reasons = await eachProxy(suspect.target, CALL_MS, async (toxiproxy, name, links) => {
    const link = links.find((one) => broken.has(one));
    if (link === undefined) return [];
    const state = await toxiproxy.proxy(name).read();
    const wrong = state.toxics.map((toxic) => `it has the toxic "${toxic.name}" (${toxic.type})`);
    if (!state.enabled) wrong.unshift("it is disabled");
    if (wrong.length === 0) return [];
    const advice = adviceFor(state, suspect, reports);
    return [`toxiproxy.proxies.${link}: the proxy "${name}" is not whole: ${wrong.join(", ")}. ${advice}`];
  }).catch((error: Error) => {
    if (error instanceof ToxiproxyError && error.status === 404) {
      throw new UsageError(`expected the proxies of \`toxiproxy.proxies\` to exist, but ${error.message}`);
    }
    throw new TargetUnreachableError(`the toxiproxy of the target file cannot be used: ${error.message}`);
  });
  if (reasons.flat().length > 0) throw new GuardError(reasons.flat());
};
