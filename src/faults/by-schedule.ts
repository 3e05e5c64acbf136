/** Plays a schedule of faults on several links, each injected and healed at its own time, not waiting for effects. */
import type { Held } from "../deployments/remote-watch.ts";
import { pause } from "../supervision/waiting.ts";
import type { Toxiproxy } from "../tools/toxiproxy.ts";
import {
  areDrawn,
  type DisturbanceContext,
  type Disturbed,
  type FaultsBySchedule,
  inconclusive,
  lostWatch,
} from "./disturbance.ts";
import { AFTER_MS, drawFaultsFor, type FaultEvent, RECOVERY_MS } from "./fault-schedule.ts";
import { heal } from "./healing.ts";
import { undoOf, undoTarget } from "./injectors/link.ts";
import { disablesProxy, faultTeller, linkBudgetMs, makeFault } from "./link-faults.ts";

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
  const say = faultTeller(stage, link, fault, context.nowUs, onLine);
  await pause(startMs + atMs - performance.now(), signal);
  if (signal.aborted) return;
  const leased: Held = { proxy: way.proxy, disables: fault.disables };
  await remoteWatch?.hold(leased);
  const about = { kind: "fault", name: `${link}.${name}`, undo } as const;
  const held = context.supervisor.begin(about, `heal ${link}.${name}`, async () => {
    // The run's signal is not used, because a stop must not cut the heal off.
    await fault.take(proxy, { callMs: CALL_MS, signal: AbortSignal.timeout(HEAL_MS) });
    await remoteWatch?.release(leased);
    return "";
  });
  say("injecting");
  // No probe is needed, because `put` reads back what it wrote.
  await fault.put(proxy, { callMs: CALL_MS }).catch((error: unknown) => {
    // Reports that the fault took no effect, so that the link's other faults are judged.
    say("injected", { took_effect: false });
    throw error;
  });
  held.done();
  say("injected", { took_effect: true });
  await pause(forMs, signal);
  say("healing");
  await held.takeBack();
  say("healed");
};

export const breakBySchedule = async (
  { events: wanted }: FaultsBySchedule,
  beside: DisturbanceContext,
): Promise<Disturbed> => {
  const startMs = performance.now();
  const { context, deployment, signal } = beside;
  const events = areDrawn(wanted) ? drawFaultsFor(wanted.forMs, context.seed, wanted.drawn, wanted.links) : wanted;
  const { faults } = deployment;
  const toxiproxy = faults?.toxiproxy as Toxiproxy;
  const broken = [...Map.groupBy(events, ({ link }) => link)].flatMap(([link, own]) => {
    const mayEnable = own.some(({ fault }) => disablesProxy(fault));
    return [faults?.links[link] ?? []].flat().map(({ proxy }) => ({ proxy, mayEnable }));
  });
  const doubts: string[] = [];
  // Faults that somebody else injected must not be judged as ours, or healed.
  for (const { proxy } of broken) {
    const { enabled, toxics } = await toxiproxy.proxy(proxy).read();
    if (!enabled || toxics.length > 0) doubts.push(`proxy "${proxy}" is not whole beforehand; no fault was injected`);
  }
  if (doubts.length > 0) return { problems: doubts.map(inconclusive), notes: [] };
  for (const end of await Promise.allSettled(events.map((event) => breakOnce(event, beside, startMs))))
    if (end.status === "rejected") doubts.push((end.reason as Error).message);
  let isLeftBroken = false;
  // The next trial must not meet these faults.
  for (const { proxy, mayEnable } of broken) {
    const how = { signal: AbortSignal.timeout(HEAL_MS), callMs: CALL_MS, mayReset: false, mayEnable };
    const { healed, trouble } = await heal(toxiproxy, proxy, how);
    if (healed) continue;
    doubts.push(`the fault could not be healed: proxy "${proxy}": ${trouble.join("; ")}`);
    isLeftBroken = true;
  }
  await pause(RECOVERY_MS + AFTER_MS, signal);
  return { problems: [...doubts.map(inconclusive), ...lostWatch(deployment)], notes: [], isLeftBroken };
};
