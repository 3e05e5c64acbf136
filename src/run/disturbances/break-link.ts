/**
 * The ways to break a link of a deployment behind one port: inject, does it show, heal, and how to heal it without us.
 * Through a fault proxy, or by the commands of the target file where there is none.
 */
import { makeFault } from "../../chaos/catalogue.ts";
import { commandSteps, rehearseHealing, undoByCommand } from "../../chaos/command-steps.ts";
import type { ExperimentSteps } from "../../chaos/experiment.ts";
import type { FaultStream } from "../../chaos/fault.ts";
import { httpProbe, observeLink } from "../../chaos/link-probe.ts";
import { linkSteps, undoOf } from "../../chaos/link-steps.ts";
import { watchLink } from "../../chaos/link-watch.ts";
import type { Undo } from "../../supervision/undo.ts";
import type { FaultProxies } from "../deployments/deployment.ts";
import type { DisturbanceContext, LinkFault } from "./disturbance.ts";

export type LinkBreaker = Pick<ExperimentSteps, "inject" | "heal"> & {
  undo: Undo;
  stream: FaultStream;
  /** Whether the fault shows on the link itself; `null` where that cannot be seen from here. */
  showsOnLink: (() => Promise<boolean>) | null;
  injectMs: number;
  effectMs: number;
  healMs: number;
  /** For a report. */
  notes: readonly string[];
};

/** How much longer than its budget a caller of the link would wait: silence beyond it is the fault's. */
const PROBE_OVER_BUDGET_MS = 500;
const BY_PROXY = { injectMs: 5_000, effectMs: 5_000, healMs: 15_000 };
/** A command may have to wait for an orchestrator. */
const BY_COMMAND = { injectMs: 30_000, effectMs: 10_000, healMs: 30_000 };

export const faultKey = ({ link, fault }: Pick<LinkFault, "link" | "fault">): string => `${link}.${fault}`;

const throughProxy = async (
  disturbance: LinkFault,
  { deployment }: DisturbanceContext,
  faults: FaultProxies,
  link: { proxy: string; listen: string },
): Promise<LinkBreaker> => {
  const { limits } = deployment.target;
  const budgetMs =
    (disturbance.link === "limiter" ? limits?.limiter_budget_ms : limits?.key_service_budget_ms) ?? 1_000;
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
  let showsOnLink: LinkBreaker["showsOnLink"] = async () => fault.shows(await observeLink(probe));
  if (!deployment.embedded) {
    const watch = await watchLink(link.listen, giveUpMs);
    const canShow = watch?.canShow(fault) === true;
    showsOnLink = watch !== null && canShow ? async () => fault.shows(await watch.look()) : null;
    if (watch === null) notes.push(`${link.listen} cannot be reached from here: the effect is judged by the callers`);
    else if (!canShow)
      notes.push(`the link (${watch.speaks}) looks so when whole: the effect is judged by the callers`);
  }
  return { inject, heal, undo: undoOf(broken), stream: fault.stream, showsOnLink, ...BY_PROXY, notes };
};

const byCommands = async (
  disturbance: LinkFault,
  { context, deployment }: DisturbanceContext,
): Promise<LinkBreaker | null> => {
  const key = faultKey(disturbance);
  const commands = deployment.target.faults?.[key];
  if (commands === undefined) return null;
  const own = {
    ...commands,
    cwd: deployment.folder ?? process.cwd(),
    onSpawn: (pid: number) => context.supervisor.adopt(`a command of faults.${key}`, pid),
  };
  const inTime = AbortSignal.any([context.signal, AbortSignal.timeout(BY_COMMAND.healMs)]);
  await rehearseHealing(own, inTime).catch((error: Error) => {
    throw new Error(`faults.${key}: nothing was injected, because healing does not work beforehand: ${error.message}`);
  });
  const { inject, heal } = commandSteps(own);
  return {
    inject,
    heal,
    undo: undoByCommand(own),
    stream: "both",
    showsOnLink: null,
    ...BY_COMMAND,
    notes: ["injected by commands: the effect is judged by the callers"],
  };
};

/** Throws a sentence where the deployment has no way to it. */
export const linkBreaker = async (disturbance: LinkFault, beside: DisturbanceContext): Promise<LinkBreaker> => {
  const { faults } = beside.deployment;
  const link = faults?.links[disturbance.link];
  const breaker =
    faults !== null && link !== undefined && !disturbance.onlyByCommand
      ? await throughProxy(disturbance, beside, faults, link)
      : await byCommands(disturbance, beside);
  if (breaker === null) throw new Error(`${beside.stage} needs a proxy on the link ${disturbance.link}`);
  return breaker;
};
