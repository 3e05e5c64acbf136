/** Breaks a link of a deployment through its fault proxy. */

import type { Deployment, FaultProxies, LinkName } from "../../deployments/deployment.ts";
import { dependencyBudgetMs, type Limits } from "../../history/stage-facts.ts";
import type { TargetName } from "../../supervision/undo.ts";
import { targetName } from "../../target/target-urls.ts";
import { httpProbe, observeLink } from "../../tools/link-probe.ts";
import { makeFault } from "../faults/catalogue.ts";
import { linkSteps, undoOf } from "../link-steps.ts";
import { watchLink } from "../link-watch.ts";
import type { Breaker } from "./breaker.ts";
import type { DisturbanceContext, LinkFault } from "./disturbance.ts";

/** How much longer than its budget a caller of the link would wait: silence beyond it is the fault's. */
export const PROBE_OVER_BUDGET_MS = 500;
const BUDGET_MS = 1_000;
/** Callers wait for as long as they like; what is slow is to be over within a stage all the same. */
const EDGE_BUDGET_MS = 60;
const TIMES = { injectMs: 5_000, effectMs: 5_000, healMs: 15_000 };

/** How long whoever is called through the link gives it. */
export const linkBudgetMs = (link: LinkName, limits: Limits = {}): number => {
  if (link === "edge") return EDGE_BUDGET_MS;
  return dependencyBudgetMs(link, limits) ?? BUDGET_MS;
};

/** A proxy of the embedded deployment is a process of the run. */
export const undoTarget = ({ embedded, target, file }: Deployment): TargetName | null =>
  embedded ? null : targetName(target, file);

export const linkBreaker = async (
  disturbance: LinkFault,
  { deployment }: DisturbanceContext,
  faults: FaultProxies,
  link: { proxy: string; listen: string },
): Promise<Breaker> => {
  const { limits } = deployment.target;
  const budgetMs = linkBudgetMs(disturbance.link, limits);
  const giveUpMs = budgetMs + PROBE_OVER_BUDGET_MS;
  const fault = makeFault(disturbance.fault, { budgetMs });
  const probe = httpProbe(link.listen, "/health", giveUpMs);
  const broken = {
    toxiproxy: faults.toxiproxy,
    proxy: link.proxy,
    fault,
    probe,
    mayReset: faults.mayReset,
    ...(faults.restart === undefined ? {} : { restart: faults.restart }),
  };
  const { inject, heal } = linkSteps(broken);
  const notes: string[] = [];
  if (disturbance.link === "keys" && limits?.revocation_budget_ms === undefined) {
    notes.push(
      "`limits.revocation_budget_ms` is not stated: where records are cached for longer, the fault stays hidden",
    );
  }
  let showsAtPart: Breaker["showsAtPart"] = async () => fault.shows(await observeLink(probe));
  // HTTP is spoken on every link of ours but the one to a Redis.
  if (!deployment.embedded || (disturbance.link === "limiter" && deployment.own?.store.kind === "redis")) {
    const watch = await watchLink(link.listen, giveUpMs);
    const canShow = watch?.canShow(fault) === true;
    showsAtPart = watch !== null && canShow ? async () => fault.shows(await watch.look()) : null;
    if (watch === null) notes.push(`${link.listen} cannot be reached from here: the effect is judged by the callers`);
    else if (!canShow)
      notes.push(`the link (${watch.speaks}) looks so when whole: the effect is judged by the callers`);
  }
  return {
    inject,
    heal,
    undo: undoOf(broken, undoTarget(deployment)),
    stream: fault.stream,
    showsAtPart,
    ...TIMES,
    notes,
  };
};
