/**
 * Before a run on a target: nothing of ours may still be broken there, or the run would judge the fault of an earlier one.
 * Journals say what was left; where a proxy can be asked, it has the last word. What cannot be asked (a fault that commands
 * brought about) counts as left until it has been healed.
 */
import { dirname, resolve } from "node:path";
import { TOXIC_PREFIX } from "../../chaos/fault.ts";
import { openToxiproxy, type ProxyState } from "../../chaos/toxiproxy.ts";
import type { OpenEffect } from "../../supervision/journal.ts";
import type { Target } from "../../target/target.ts";
import { GuardError, type PreparedTarget } from "../prepare-target.ts";
import { journalsIn, type LeftOpen, leftOpenIn } from "./left-open.ts";

const CALL_MS = 3_000;
const HOW = "`npx floodgate chaos --heal` takes it back, and so does --heal with this command";
const HOW_ELSEWHERE = "`npx floodgate chaos --heal --out DIR` with its run folder takes it back";

type Suspect = Pick<PreparedTarget, "file" | "target">;
type Left = { what: string; how: string };

const sameList = (a: readonly string[], b: readonly string[]): boolean =>
  a.length === b.length && a.every((one, at) => one === b[at]);

/** Whether healing it would run commands of this target file. */
const isOfCommands = ({ undo }: OpenEffect, { file, target }: Suspect): boolean =>
  undo.how === "command" &&
  (undo.cwd === undefined || undo.cwd === dirname(resolve(file))) &&
  Object.values(target.faults ?? {}).some(({ heal }) => sameList(heal, undo.commands));

/** The proxies of the target as they are; none where toxiproxy is gone, and with it every fault in it. */
const readProxies = async ({ toxiproxy: stated }: Target): Promise<ProxyState[]> => {
  if (stated === undefined) return [];
  const toxiproxy = openToxiproxy(stated.api_url, { callMs: CALL_MS });
  try {
    const names = Object.values(stated.proxies).filter((name) => name !== undefined && name !== null);
    const states = await Promise.all(
      names.map((name) =>
        toxiproxy
          .proxy(name)
          .read()
          .catch(() => null),
      ),
    );
    return states.flatMap((state) => (state === null ? [] : [state]));
  } finally {
    await toxiproxy.close();
  }
};

const isStillIn = ({ undo }: OpenEffect, apiUrl: string | undefined, states: readonly ProxyState[]): boolean => {
  if (undo.how !== "heal-proxy" || undo.api_url !== apiUrl) return false;
  const state = states.find(({ name }) => name === undo.proxy);
  if (state === undefined) return false;
  const hasOurs = state.toxics.some(({ name }) => name.startsWith(TOXIC_PREFIX));
  return hasOurs || (!state.enabled && undo.disables !== false);
};

const leftBy = ({ journal, faults, isRunning }: LeftOpen, suspect: Suspect, states: readonly ProxyState[]): Left[] => {
  const run = dirname(journal);
  const apiUrl = suspect.target.toxiproxy?.api_url;
  return faults
    .filter((fault) => isStillIn(fault, apiUrl, states) || isOfCommands(fault, suspect))
    .map(({ name }) =>
      isRunning
        ? { what: `${name} is broken by the run of ${run}`, how: "that run is still going and heals it by itself" }
        : { what: `${name} was left broken by the run of ${run}`, how: HOW },
    );
};

/** Every fault of ours that is still in the deployment, in sentences. */
export const leftBrokenIn = async (suspect: Suspect, reports: string): Promise<string[]> => {
  const states = await readProxies(suspect.target);
  const left = journalsIn(reports).flatMap((journal) => leftBy(leftOpenIn(journal), suspect, states));
  if (left.length === 0) {
    for (const { name, toxics } of states) {
      const ours = toxics.filter((toxic) => toxic.name.startsWith(TOXIC_PREFIX)).map((toxic) => `"${toxic.name}"`);
      if (ours.length === 0) continue;
      left.push({
        what: `the proxy "${name}" has ${ours.join(", ")}: by its name a floodgate put it there, whose run folder is not under reports/runs`,
        how: HOW_ELSEWHERE,
      });
    }
  }
  return [...new Set(left.map(({ what, how }) => `${what}: ${how}`))];
};

/** Throws `GuardError`. */
export const requireNothingLeft = async (targets: readonly Suspect[], reports: string): Promise<void> => {
  const reasons: string[] = [];
  for (const target of targets) reasons.push(...(await leftBrokenIn(target, reports)));
  if (reasons.length > 0) throw new GuardError(reasons);
};
