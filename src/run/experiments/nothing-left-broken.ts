/**
 * Before a run on a target: nothing of ours may still be broken there, or the run would judge the fault of an earlier one.
 * Journals say what was left; where a proxy can be asked, it has the last word. What cannot be asked (a fault that commands
 * brought about) counts as left until it has been healed.
 */
import { dirname } from "node:path";
import { hasOurToxics } from "../../faults/healing.ts";
import { isOurToxic } from "../../faults/link-faults.ts";
import { GuardError, type PreparedTarget } from "../../stages/prepare-target.ts";
import type { NamedUndo, TargetName } from "../../supervision/undo.ts";
import type { Target } from "../../target/target.ts";
import { isSameTarget } from "../../target/target-urls.ts";
import { openToxiproxy, type ProxyState } from "../../tools/toxiproxy.ts";
import { type LeftOpen, leftOpenUnder, partsOnTargets } from "./left-open.ts";

const CALL_MS = 3_000;
/** The command that heals a deployment. */
export const howToHeal = (file: string): string =>
  `\`npx floodgate chaos --heal --target ${file}\` takes it back, and so does --heal with this command`;

type Suspect = Pick<PreparedTarget, "file" | "target">;
type Left = { what: string; how: string };

/** The proxies of the target as they are; none where toxiproxy is gone, and with it every fault in it. */
const readProxies = async ({ toxiproxy: stated }: Target): Promise<ProxyState[]> => {
  if (stated === undefined) return [];
  const toxiproxy = openToxiproxy(stated.api_url, { callMs: CALL_MS });
  try {
    const names = Object.values(stated.proxies ?? {}).filter((name) => name !== undefined && name !== null);
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

/** A proxy has the last word; nobody can be asked what commands or an operator's change have left. */
const isStillIn = (
  part: Extract<NamedUndo, { target: TargetName }>,
  { target }: Suspect,
  states: readonly ProxyState[],
): boolean => {
  if (!isSameTarget(part.target, target)) return false;
  if (part.how !== "heal-proxy") return true;
  const state = states.find(({ name }) => name === part.proxy);
  return state !== undefined && (hasOurToxics(state) || (!state.enabled && part.disables));
};

const leftBy = ({ journal, faults, isRunning }: LeftOpen, suspect: Suspect, states: readonly ProxyState[]): Left[] => {
  const run = dirname(journal);
  return faults
    .filter(({ undo }) => partsOnTargets(undo).some((part) => isStillIn(part, suspect, states)))
    .map(({ name }) =>
      isRunning
        ? { what: `${name} is broken by the run of ${run}`, how: "that run is still going and heals it by itself" }
        : { what: `${name} was left broken by the run of ${run}`, how: howToHeal(suspect.file) },
    );
};

/** Every fault of ours that is still in the deployment, in sentences. */
export const leftBrokenIn = async (suspect: Suspect, reports: string): Promise<string[]> => {
  const states = await readProxies(suspect.target);
  const left = leftOpenUnder(reports).flatMap((open) => leftBy(open, suspect, states));
  if (left.length === 0) {
    for (const { name, toxics } of states) {
      const ours = toxics.filter(isOurToxic).map((toxic) => `"${toxic.name}"`);
      if (ours.length === 0) continue;
      left.push({
        what: `the proxy "${name}" has ${ours.join(", ")}: by its name a floodgate put it there`,
        how: howToHeal(suspect.file),
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
