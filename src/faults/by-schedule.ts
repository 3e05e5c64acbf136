/**
 * Faults on several links, by a schedule: each injected at its moment and healed at its own, side by side with others. For the
 * random search; an experiment, which waits for what it sees, is `fault-beside-load.ts`.
 */
import type { Held } from "../deployments/remote-watch.ts";
import type { FaultLine } from "../history/line.ts";
import { drawFaultsFor, type FaultEvent } from "../simulation/fault-schedule.ts";
import { pause } from "../supervision/waiting.ts";
import {
  areDrawn,
  type DisturbanceContext,
  type Disturbed,
  type FaultsBySchedule,
  inconclusive,
  lostWatch,
} from "./disturbance.ts";
import { heal } from "./healing.ts";
import { undoOf, undoTarget } from "./injectors/link.ts";
import { disablesProxy, linkBudgetMs, makeFault } from "./link-faults.ts";

const CALL_MS = 5_000;
const HEAL_MS = 15_000;

const breakOnce = async (event: FaultEvent, beside: DisturbanceContext, startMs: number): Promise<void> => {
  const { context, deployment, stage, signal, onLine } = beside;
  const { link, fault: name, atMs, forMs } = event;
  const { faults, target, remoteWatch } = deployment;
  const way = faults?.links[link];
  if (faults === null || way === undefined) throw new Error(`${stage} needs a proxy on the link ${link}`);
  const fault = makeFault(name, { budgetMs: linkBudgetMs(link, target.limits) });
  const proxy = faults.toxiproxy.proxy(way.proxy);
  const undo = undoOf({ toxiproxy: faults.toxiproxy, proxy: way.proxy, fault }, undoTarget(deployment));
  const about = {
    type: "fault",
    stage,
    experiment: `${link}-${name}`,
    link,
    fault: name,
    stream: fault.stream,
  } as const;
  const say = (phase: FaultLine["phase"], more: Partial<FaultLine> = {}): void =>
    onLine({ ...about, phase, at_us: context.nowUs(), ...more });
  await pause(startMs + atMs - performance.now(), signal);
  if (signal.aborted) return;
  const held: Held = { proxy: way.proxy, disables: fault.disables };
  await remoteWatch?.hold(held);
  const id = context.journal.about({ kind: "fault", name: `${link}.${name}`, undo });
  const take = async (): Promise<void> => {
    await fault.take(proxy, { callMs: CALL_MS });
    context.journal.undone(id);
    await remoteWatch?.release(held);
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

/** What is wrong with each proxy that the events are about, as `look` finds it. */
const eachProxy = async (
  events: readonly FaultEvent[],
  { deployment: { faults } }: DisturbanceContext,
  look: (
    proxy: string,
    toxiproxy: NonNullable<typeof faults>["toxiproxy"],
    mayEnable: boolean,
  ) => Promise<string | null>,
): Promise<string[]> => {
  const wrong: string[] = [];
  for (const link of new Set(events.map((event) => event.link))) {
    const way = faults?.links[link];
    if (faults === null || way === undefined) continue;
    const mayEnable = events.some((event) => event.link === link && disablesProxy(event.fault));
    const found = await look(way.proxy, faults.toxiproxy, mayEnable);
    if (found !== null) wrong.push(found);
  }
  return wrong;
};

export const breakBySchedule = async (
  { events: wanted, restMs }: FaultsBySchedule,
  beside: DisturbanceContext,
): Promise<Disturbed> => {
  const startMs = performance.now();
  const events = areDrawn(wanted)
    ? drawFaultsFor(wanted.forMs, beside.context.seed, wanted.drawn, wanted.links)
    : wanted;
  // What somebody else has done to a proxy must not be judged for ours, or healed away.
  const before = await eachProxy(events, beside, async (proxy, toxiproxy) => {
    const { enabled, toxics } = await toxiproxy.proxy(proxy).read();
    return enabled && toxics.length === 0 ? null : `proxy "${proxy}" is not whole beforehand; no fault was injected`;
  });
  if (before.length > 0) return { problems: before.map(inconclusive), notes: [] };
  const ended = await Promise.allSettled(events.map((event) => breakOnce(event, beside, startMs)));
  const failed = ended.flatMap((end) => (end.status === "rejected" ? [(end.reason as Error).message] : []));
  // One trial must not meet the faults of another. Only what was broken here is touched.
  const left = await eachProxy(events, beside, async (proxy, toxiproxy, mayEnable) => {
    const how = { signal: AbortSignal.timeout(HEAL_MS), callMs: CALL_MS, mayReset: false, mayEnable };
    const { healed, trouble } = await heal(toxiproxy, proxy, how);
    return healed ? null : `the fault could not be healed: proxy "${proxy}": ${trouble.join("; ")}`;
  });
  await pause(restMs, beside.signal);
  const problems = [...[...failed, ...left].map(inconclusive), ...lostWatch(beside.deployment)];
  return { problems, notes: [], isLeftBroken: left.length > 0 };
};
