/**
 * The ways to break a link of a deployment behind one port: inject, does it show, heal, and how to heal it without us.
 * Through a fault proxy, or by the commands of the target file where there is none.
 */
import { makeFault } from "../../chaos/catalogue.ts";
import { commandSteps, rehearseHealing, undoByCommand } from "../../chaos/command-steps.ts";
import type { FaultStream } from "../../chaos/fault.ts";
import type { FaultPort } from "../../chaos/fault-port.ts";
import { httpProbe, observeLink } from "../../chaos/link-probe.ts";
import { linkSteps, undoOf } from "../../chaos/link-steps.ts";
import { watchLink } from "../../chaos/link-watch.ts";
import type { RemoteWatch } from "../../chaos/watchdog-client.ts";
import type { Held } from "../../chaos/watchdog-lease.ts";
import type { Undo } from "../../supervision/undo.ts";
import type { FaultProxies } from "../deployments/deployment.ts";
import type { DisturbanceContext, LinkFault } from "./disturbance.ts";

export type LinkBreaker = FaultPort & {
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
  const { inject, status, heal } = linkSteps(broken);
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
  return { inject, status, heal, undo: undoOf(broken), stream: fault.stream, showsOnLink, ...BY_PROXY, notes };
};

const byCommands = async (disturbance: LinkFault, beside: DisturbanceContext): Promise<LinkBreaker | null> => {
  const { context, deployment } = beside;
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
  return {
    ...commandSteps(own),
    undo: undoByCommand(own),
    stream: "both",
    ...BY_COMMAND,
    ...(await effectOfCommands(disturbance, beside)),
  };
};

/** Through the named proxy where there is one that can be reached, else by the callers. */
const effectOfCommands = async (
  { link }: LinkFault,
  { deployment }: DisturbanceContext,
): Promise<Pick<LinkBreaker, "showsOnLink" | "notes">> => {
  const way = deployment.faults?.links[link];
  const { limits } = deployment.target;
  const budgetMs = (link === "limiter" ? limits?.limiter_budget_ms : limits?.key_service_budget_ms) ?? 1_000;
  const watch = way === undefined ? null : await watchLink(way.listen, budgetMs + PROBE_OVER_BUDGET_MS);
  if (watch !== null) {
    return {
      showsOnLink: async () => watch.isChanged(await watch.look()),
      notes: [`injected by commands: the effect is seen through the proxy "${way?.proxy}"`],
    };
  }
  return { showsOnLink: null, notes: ["injected by commands: the effect is judged by the callers"] };
};

/** Held by the watchdog beside the proxy before it is broken, and until it is whole again. */
const heldRemotely = (breaker: LinkBreaker, held: Held, watch: RemoteWatch): LinkBreaker => ({
  ...breaker,
  inject: async (signal) => {
    await watch.hold(held);
    await breaker.inject(signal);
  },
  heal: async (signal) => {
    const did = await breaker.heal(signal);
    await watch.release(held);
    return did;
  },
});

/** Throws a sentence where the deployment has no way to it. */
export const linkBreaker = async (disturbance: LinkFault, beside: DisturbanceContext): Promise<LinkBreaker> => {
  const { faults } = beside.deployment;
  const link = faults?.links[disturbance.link];
  const breaker =
    faults !== null && link !== undefined && !disturbance.onlyByCommand
      ? await throughProxy(disturbance, beside, faults, link)
      : await byCommands(disturbance, beside);
  if (breaker === null) throw new Error(`${beside.stage} needs a proxy on the link ${disturbance.link}`);
  const watch = beside.deployment.remoteWatch;
  if (watch === undefined) return breaker;
  const { undo } = breaker;
  const held: Held =
    undo.how === "heal-proxy"
      ? { proxy: undo.proxy, disables: undo.disables !== false }
      : { fault: faultKey(disturbance) };
  return heldRemotely(breaker, held, watch);
};
