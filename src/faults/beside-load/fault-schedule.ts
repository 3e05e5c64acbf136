/**
 * Faults on several links, by a schedule: each put in at its moment and taken away at its own, side by side with others. For
 * the random search; an experiment, which waits for what it sees, is `link-fault.ts`.
 */

import type { FaultProxies } from "../../deployments/deployment.ts";
import type { Held } from "../../deployments/remote-watch.ts";
import type { Problem } from "../../drivers/driver.ts";
import type { FaultLine } from "../../history/line.ts";
import { dependencyBudgetMs } from "../../history/stage-facts.ts";
import { drawFaultsFor, type ExploredLink, type FaultEvent } from "../../simulation/fault-schedule.ts";
import { pause } from "../../supervision/waiting.ts";
import { httpProbe } from "../../tools/link-probe.ts";
import { makeFault } from "../faults/catalogue.ts";
import { heal } from "../healing.ts";
import { undoOf } from "../link-steps.ts";
import { areDrawn, type DisturbanceContext, type Disturbed, type FaultsBySchedule } from "./disturbance.ts";
import { undoTarget } from "./link-breaker.ts";

const CALL_MS = 5_000;
const HEAL_MS = 15_000;

const disables = (fault: string): boolean => makeFault(fault, { budgetMs: 1_000 }).disables === true;

const breakOnce = async (event: FaultEvent, beside: DisturbanceContext, startMs: number): Promise<void> => {
  const { context, deployment, stage, signal, onLine } = beside;
  const { link, fault: name, atMs, forMs } = event;
  const { faults, target } = deployment;
  const way = faults?.links[link];
  if (faults === null || way === undefined) throw new Error(`${stage} needs a proxy on the link ${link}`);
  const budgetMs = dependencyBudgetMs(link, target.limits ?? {}) ?? 1_000;
  const fault = makeFault(name, { budgetMs });
  const proxy = faults.toxiproxy.proxy(way.proxy);
  const probe = httpProbe(way.listen, "/health", budgetMs);
  const broken = { toxiproxy: faults.toxiproxy, proxy: way.proxy, fault, probe, mayReset: false };
  const undo = undoOf(broken, undoTarget(deployment));
  const say = (phase: FaultLine["phase"], more: Partial<FaultLine> = {}): void =>
    onLine({
      type: "fault",
      stage,
      experiment: `${link}-${name}`,
      link,
      fault: name,
      stream: fault.stream,
      phase,
      at_us: context.nowUs(),
      ...more,
    });
  await pause(startMs + atMs - performance.now(), signal);
  if (signal.aborted) return;
  const held: Held = { proxy: way.proxy, disables: fault.disables === true };
  await deployment.remoteWatch?.hold(held);
  const id = context.journal.about({ kind: "fault", name: `${link}.${name}`, undo });
  const take = async (): Promise<void> => {
    await fault.take(proxy, { callMs: CALL_MS });
    context.journal.undone(id);
    await deployment.remoteWatch?.release(held);
  };
  const forget = context.supervisor.registerUndo(`heal ${link}.${name}`, take);
  say("injecting");
  // It reads back what it put there.
  await fault.put(proxy, { callMs: CALL_MS }).catch((error: unknown) => {
    // The change of the link is over: other faults of it are judged on.
    say("injected", { took_effect: false });
    throw error;
  });
  context.journal.done(id);
  say("injected", { took_effect: true });
  await pause(forMs, signal);
  say("healing");
  await take();
  forget();
  say("healed");
};

/** Whole again, whatever was left: one trial must not meet the faults of another. Only what was broken here is touched. */
const leaveWhole = async (events: readonly FaultEvent[], { deployment }: DisturbanceContext): Promise<string[]> => {
  const { faults } = deployment;
  const left: string[] = [];
  for (const link of new Set(events.map((event) => event.link))) {
    const way = faults?.links[link];
    if (faults === null || way === undefined) continue;
    const mayEnable = events.some((event) => event.link === link && disables(event.fault));
    const signal = AbortSignal.timeout(HEAL_MS);
    const { healed, trouble } = await heal(faults.toxiproxy, way.proxy, {
      signal,
      callMs: CALL_MS,
      mayReset: false,
      mayEnable,
    });
    if (!healed) left.push(`the fault could not be healed: proxy "${way.proxy}": ${trouble.join("; ")}`);
  }
  return left;
};

/** What somebody else has done to a proxy must not be judged for ours, or healed away. */
const brokenBefore = async (events: readonly FaultEvent[], { deployment }: DisturbanceContext): Promise<string[]> => {
  const broken: string[] = [];
  for (const link of new Set(events.map((event) => event.link))) {
    const way = deployment.faults?.links[link];
    if (way === undefined) continue;
    const { enabled, toxics } = await (deployment.faults as FaultProxies).toxiproxy.proxy(way.proxy).read();
    if (!enabled || toxics.length > 0)
      broken.push(`proxy "${way.proxy}" is not whole beforehand; no fault was injected`);
  }
  return broken;
};

/** The links that would be broken, for what is lacking. */
export const linksOf = ({ events }: FaultsBySchedule): readonly ExploredLink[] =>
  areDrawn(events) ? events.links : events.map(({ link }) => link);

const inconclusive = (reason: string): Problem => ({ verdict: "inconclusive", reason });

export const breakBySchedule = async (
  { events: wanted, restMs }: FaultsBySchedule,
  beside: DisturbanceContext,
): Promise<Disturbed> => {
  const startMs = performance.now();
  const events = areDrawn(wanted)
    ? drawFaultsFor(wanted.forMs, beside.context.seed, wanted.drawn, wanted.links)
    : wanted;
  const before = await brokenBefore(events, beside);
  if (before.length > 0) return { problems: before.map(inconclusive), notes: [] };
  const ended = await Promise.allSettled(events.map((event) => breakOnce(event, beside, startMs)));
  const left = await leaveWhole(events, beside);
  const troubles = [
    ...ended.flatMap((end) => (end.status === "rejected" ? [(end.reason as Error).message] : [])),
    ...left,
  ];
  await pause(restMs, beside.signal);
  const lost = beside.deployment.remoteWatch?.lost() ?? null;
  return {
    problems: [...troubles, ...(lost === null ? [] : [lost])].map(inconclusive),
    notes: [],
    ...(left.length === 0 ? {} : { isLeftBroken: true }),
  };
};
