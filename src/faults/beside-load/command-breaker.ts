/** Breaks something by the commands that the target file has for it (`faults`), healing tried once before. */

import type { Deployment } from "../../deployments/deployment.ts";
import { targetName } from "../../target/target-urls.ts";
import { commandSteps, rehearseHealing, undoByCommand } from "../command-steps.ts";
import { watchLink } from "../link-watch.ts";
import type { Breaker } from "./breaker.ts";
import type { DisturbanceContext, OneFault } from "./disturbance.ts";
import { linkBudgetMs, PROBE_OVER_BUDGET_MS } from "./link-breaker.ts";

/** A command may have to wait for an orchestrator. */
const TIMES = { injectMs: 30_000, effectMs: 10_000, healMs: 30_000 };

/** The name under which the target file has commands for it: `limiter.refused`. */
export const faultKey = ({ link, fault }: Pick<OneFault, "link" | "fault">): string => `${link}.${fault}`;

/** `null`: the target file has none. */
export const commandBreaker = async (
  fault: OneFault,
  { context, deployment }: DisturbanceContext,
): Promise<Breaker | null> => {
  const key = faultKey(fault);
  const commands = deployment.target.faults?.[key];
  if (commands === undefined) return null;
  const own = {
    ...commands,
    cwd: deployment.folder ?? process.cwd(),
    onSpawn: (pid: number) => context.supervisor.adopt(`a command of faults.${key}`, pid),
  };
  const inTime = AbortSignal.any([context.signal, AbortSignal.timeout(TIMES.healMs)]);
  await rehearseHealing(own, inTime).catch((error: Error) => {
    throw new Error(`faults.${key}: nothing was injected, because healing does not work beforehand: ${error.message}`);
  });
  const { inject, heal } = commandSteps(own);
  return {
    inject,
    heal,
    undo: undoByCommand(own, { fault: key, target: targetName(deployment.target, deployment.file) }),
    stream: "both",
    ...TIMES,
    ...(await effectOf(fault, deployment)),
  };
};

/** Through the named proxy where there is one that can be reached, else by the callers. */
const effectOf = async (
  { link }: OneFault,
  { faults, target }: Deployment,
): Promise<Pick<Breaker, "showsAtPart" | "notes">> => {
  const isLink = link === "limiter" || link === "keys" || link === "edge";
  const way = isLink ? faults?.links[link] : undefined;
  const watch =
    isLink && way !== undefined
      ? await watchLink(way.listen, linkBudgetMs(link, target.limits) + PROBE_OVER_BUDGET_MS)
      : null;
  if (watch === null)
    return { showsAtPart: null, notes: ["injected by commands: the effect is judged by the callers"] };
  return {
    showsAtPart: async () => watch.isChanged(await watch.look()),
    notes: [`injected by commands: the effect is seen through the proxy "${way?.proxy}"`],
  };
};
