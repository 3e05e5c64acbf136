/**
 * Plays one experiment beside a running load: steady state, fault, effect, hold, heal, read back, recovery. The load's
 * own calls show steady state and recovery. The fault and its undo are journalled before the injection (write-ahead),
 * and every path heals. A probe through the link has to show the fault: an accepted request proves nothing. What a
 * deployment lacks for a disturbance is said by name before contact.
 */
import { readGauges } from "../client/control-planes.ts";
import { isLoopbackHost } from "../contract/address.ts";
import type { Deployment, LinkName, OwnParts } from "../deployments/deployment.ts";
import type { Held, RemoteWatch } from "../deployments/remote-watch.ts";
import type { Problem } from "../drivers/driver.ts";
import type { FaultLine } from "../history/line.ts";
import { BROKEN, type OpenCode } from "../history/reason-codes.ts";
import type { Supervisor } from "../supervision/supervisor.ts";
import { pause, waitUntil } from "../supervision/waiting.ts";
import type { Toxiproxy } from "../tools/toxiproxy.ts";
import * as disturbances from "./disturbance.ts";
import { atOnce, endsWithUs, type Fault, type FaultInjector, faultKey, TIMES } from "./fault.ts";
import { AFTER_MS, drawFaultsFor, type FaultEvent, RECOVERY_MS } from "./fault-schedule.ts";
import { heal } from "./healing.ts";
import { operatorInjector } from "./injectors/operator.ts";
import { processInjector, storeInjector } from "./injectors/own-parts.ts";
import { commandInjector, HEAL_MS, linkInjector, undoOf, undoTarget } from "./injectors/proxies-and-commands.ts";
import { disablesProxy, faultTeller, linkBudgetMs, makeFault } from "./link-faults.ts";
import { type CallsSeen, ENOUGH_TO_SHOW, isBack, isSilent, isSteady, showsFault } from "./seen-by-callers.ts";

/** A check that is polled until it is true or its time is over. A throw counts as false and leaves a note. */
type Look = (signal: AbortSignal) => Promise<boolean>;

type Say = ReturnType<typeof faultTeller>;

/** A fault to inject and heal. `name` stands in the journal. */
type Breaking = Pick<FaultInjector, "inject" | "heal" | "undo" | "injectMs" | "healMs"> & { name: string };

type Surroundings = {
  supervisor: Pick<Supervisor, "begin">;
  /** Fires on a stop: the fault is healed at once, and recovery is not waited for. */
  signal: AbortSignal;
  say: Say;
};

/** Injects a fault, holds it, and heals it on every path. Rejects, with nothing broken, if it cannot be journalled. */
const breakAndHeal = async (fault: Breaking, { supervisor, signal, say }: Surroundings, hold: () => Promise<void>) => {
  const { name, inject, heal, undo, injectMs, healMs } = fault;
  const notes: string[] = [];
  let healed = true;
  const held = supervisor.begin({ kind: "fault", name, undo }, `heal ${name}`, async () => {
    // The run's signal is not used, because a stop must not cut the heal off.
    const did = (await heal(AbortSignal.timeout(healMs))) ?? [];
    if (did.length > 0) notes.push(`healing took: ${did.join(", ")}`);
    return did.join(", ");
  });
  try {
    say("injecting");
    await inject(AbortSignal.any([signal, AbortSignal.timeout(injectMs)]));
    held.done();
    await hold();
  } catch (error) {
    notes.push(`inject: ${(error as Error).message}`);
    say("injected", { took_effect: false });
  } finally {
    say("healing");
    try {
      await held.takeBack();
      say("healed");
    } catch (error) {
      healed = false;
      notes.push(`not healed: ${(error as Error).message}`);
    }
  }
  return { healed, notes };
};

export type ExperimentPlan = Breaking &
  Record<"steadyMs" | "effectMs" | "holdMs" | "recoveryMs", number> &
  Record<"isSteady" | "showsEffect" | "hasRecovered", Look> & {
    /** Reports whether enough calls met the fault; polled after `holdMs` for up to twice as long. */
    isSeenEnough?: Look | undefined;
    pollMs?: number;
  };

export const runExperiment = async ({ pollMs = 20, ...plan }: ExperimentPlan, around: Surroundings) => {
  const { signal, say } = around;
  const outcome = {
    steady: false,
    /** False also if nothing was injected. */
    tookEffect: false,
    /** Read back as whole, or never broken. False means a failed cleanup, not a failed target. */
    healed: true,
    /** `null`: not observed (stopped, never steady, or not healed). */
    recovered: null as boolean | null,
    stopped: false,
    notes: [] as string[],
  };
  const look = async (what: string, step: Look, forMs: number): Promise<boolean> => {
    const { met, lastError } = await waitUntil(step, { forMs, pollMs, signal });
    if (!met && !signal.aborted)
      outcome.notes.push(`${what} within ${forMs} ms: no${lastError === null ? "" : ` (${lastError})`}`);
    return met;
  };
  outcome.steady = await look("steady state", plan.isSteady, plan.steadyMs);
  if (outcome.steady && !signal.aborted) {
    const { healed, notes } = await breakAndHeal(plan, around, async () => {
      outcome.tookEffect = await look("effect seen through the link", plan.showsEffect, plan.effectMs);
      say("injected", { took_effect: outcome.tookEffect });
      if (!outcome.tookEffect) return;
      const { isSeenEnough, holdMs } = plan;
      await pause(holdMs, signal);
      if (isSeenEnough !== undefined) await waitUntil(isSeenEnough, { forMs: 2 * holdMs, pollMs, signal });
    });
    outcome.healed = healed;
    outcome.notes.push(...notes);
    if (healed && !signal.aborted) outcome.recovered = await look("recovery", plan.hasRecovered, plan.recoveryMs);
  }
  if (signal.aborted) {
    Object.assign(outcome, { stopped: true, recovered: null });
    outcome.notes.push("stopped before the end");
  }
  return outcome;
};

type Outcome = Awaited<ReturnType<typeof runExperiment>>;

/** How many of the newest calls are judged: the first ones after the injection must not hide the effect. */
const EFFECT_CALLS = 2 * ENOUGH_TO_SHOW;
/** How long to wait for the first call: k6 compiles a script slowly on a busy machine. */
const FIRST_CALL_MS = 30_000;
const ENOUGH_SEEN = 15;
const ENOUGH_STREAMS = 2;

/** Reports whether enough streams are open, if they are required. Streams end quickly, so this is polled. */
const isMet = async ({ requiredStates, deployment }: disturbances.DisturbanceContext): Promise<boolean> => {
  const apis = deployment.target.control?.api ?? [];
  if (!deployment.reference || !requiredStates.includes("streams-open") || apis.length === 0) return true;
  return (await readGauges(apis)).reduce((sum, { open_streams = 0 }) => sum + open_streams, 0) >= ENOUGH_STREAMS;
};

const NO_EFFECT = {
  link: "the fault took no effect",
  callers:
    "the fault took no effect that callers see: it was not injected, it is not on the way of these calls, or calls are admitted without it",
};

const NO_RECOVERY: Problem = { ...BROKEN, reason: "no recovery by the deadline", about: "recovery" };

const problemsOf = (outcome: Outcome, { shows }: FaultInjector, wasStopped: boolean): Problem[] => {
  const problems: Problem[] = [];
  const say = (code: OpenCode, reason: string): void => void problems.push(disturbances.inconclusive(code, reason));
  if (outcome.stopped && !wasStopped) say("cut-off", "the load ended before the experiment did");
  else if (!outcome.steady) say("not-reached", "no steady state before the fault");
  else if (!outcome.tookEffect) say("fault-without-effect", shows === null ? NO_EFFECT.callers : NO_EFFECT.link);
  if (!outcome.healed) say("not-healed", "the fault could not be healed");
  return outcome.recovered === false ? [...problems, NO_RECOVERY] : problems;
};

/** Injects faults beside a load and heals them. Resolves when the load has run long enough after the heal. */
export const injectBesideLoad = async (broken: disturbances.Faults, beside: disturbances.DisturbanceContext) => {
  const { context, deployment, stage, onLine, signal, recent, ratePerS } = beside;
  const { nowUs } = context;
  const { name, faults } = broken;
  const pace = disturbances.paceOf(broken, ratePerS, deployment.target.limits);
  const injector = await injectorFor(broken, beside);
  // A slow start of the driver does not make the deployment unsteady.
  await waitUntil(async () => recent.newest(0).calls > 0, { forMs: FIRST_CALL_MS, pollMs: 20, signal });
  await pause(broken.calmMs ?? 0, signal);
  const beganUs = nowUs();
  const never = Number.POSITIVE_INFINITY;
  const at: Record<FaultLine["phase"], number> = { injecting: never, injected: never, healing: never, healed: never };
  let before: CallsSeen = { calls: 0, through: 0, latencyMsP50: 0, tookMsP50: 0 };
  const showsToCallers = (): boolean =>
    showsFault(before, recent.newest(at.injecting, EFFECT_CALLS)) ||
    isSilent(before, (nowUs() - Math.max(at.injecting, recent.sentUs())) / 1_000_000, ratePerS);
  const say: Say = (phase, effect) => {
    at[phase] = nowUs();
    const about = { type: "fault", stage, experiment: name, stream: injector.stream, phase, at_us: at[phase] } as const;
    // One line per dependency, because judges look at each separately.
    for (const { component, fault } of faults) onLine({ ...about, link: component, fault, ...effect });
  };
  const plan: ExperimentPlan = {
    ...injector,
    ...pace,
    name: `${faults.map(({ component }) => component).join("+")}.${faults.map(({ fault }) => fault).join("+")}`,
    isSteady: async () => {
      if (!isSteady(recent.newest(beganUs, pace.steadyCalls), pace.steadyCalls)) return false;
      before = recent.newest(beganUs);
      return isMet(beside);
    },
    showsEffect: injector.shows ?? (async () => showsToCallers()),
    // On a stalled machine the hold may pass without a call. No call is waited for if the API itself is broken.
    isSeenEnough: faults.every(({ component }) => component === "limiter" || component === "keys")
      ? async () => recent.newest(at.injected, ENOUGH_SEEN).calls >= ENOUGH_SEEN
      : undefined,
    hasRecovered: async () => isBack(before, recent.newest(at.healed, pace.backCalls), pace.backCalls),
  };
  const outcome = await runExperiment(plan, { supervisor: context.supervisor, signal, say });
  const leftMs = (at.healed - nowUs()) / 1000 + pace.recoveryMs + pace.afterMs;
  if (Number.isFinite(leftMs) && leftMs > 0) await pause(leftMs, signal);
  return {
    problems: [...problemsOf(outcome, injector, context.signal.aborted), ...disturbances.lostWatch(deployment)],
    notes: [...injector.notes, ...outcome.notes],
    isLeftBroken: !outcome.healed,
  };
};

const CALL_MS = 5_000;

/**
 * Injects one fault of a schedule at its time and heals it after `forMs`. Returns what went wrong. No probe has to show
 * the fault, because `put` reads back what it wrote.
 */
const breakOnce = async (event: FaultEvent, beside: disturbances.DisturbanceContext, startMs: number) => {
  const { context, deployment, stage, signal, onLine } = beside;
  const { link, fault: name, atMs, forMs } = event;
  const { faults, target, remoteWatch } = deployment;
  const way = faults?.links[link];
  if (faults === null || way === undefined) throw new Error(`${stage} needs a proxy on the link ${link}`);
  const fault = makeFault(name, { budgetMs: linkBudgetMs(link, target.limits) });
  const proxy = faults.toxiproxy.proxy(way.proxy);
  const undo = undoOf({ toxiproxy: faults.toxiproxy, proxy: way.proxy, fault }, undoTarget(deployment));
  const injector = {
    ...{ ...TIMES, healMs: HEAL_MS, undo },
    inject: () => fault.put(proxy, { callMs: CALL_MS }),
    heal: async (limit: AbortSignal) => void (await fault.take(proxy, { callMs: CALL_MS, signal: limit })),
  };
  await pause(startMs + atMs - performance.now(), signal);
  if (signal.aborted) return [];
  const say = faultTeller(stage, link, fault, context.nowUs, onLine);
  const breaking = { ...heldRemotely(injector, remoteWatch), name: `${link}.${name}` };
  const { notes } = await breakAndHeal(breaking, { supervisor: context.supervisor, signal, say }, async () => {
    say("injected", { took_effect: true });
    await pause(forMs, signal);
  });
  return notes;
};

/** Plays a schedule of faults on several links, each injected and healed at its own time, not waiting for effects. */
export const breakBySchedule = async (
  { events: wanted }: disturbances.FaultsBySchedule,
  beside: disturbances.DisturbanceContext,
): Promise<disturbances.Disturbed> => {
  const startMs = performance.now();
  const { context, deployment, signal } = beside;
  const events = disturbances.areDrawn(wanted)
    ? drawFaultsFor(wanted.forMs, context.seed, wanted.drawn, wanted.links)
    : wanted;
  const { faults } = deployment;
  const toxiproxy = faults?.toxiproxy as Toxiproxy;
  const broken = [...Map.groupBy(events, ({ link }) => link)].flatMap(([link, own]) => {
    const mayEnable = own.some(({ fault }) => disablesProxy(fault));
    return [faults?.links[link] ?? []].flat().map(({ proxy }) => ({ proxy, mayEnable }));
  });
  const problems: Problem[] = [];
  const say = (code: OpenCode, reason: string): void => void problems.push(disturbances.inconclusive(code, reason));
  // Faults that somebody else injected must not be judged as ours, or healed.
  for (const { proxy } of broken) {
    const { enabled, toxics } = await toxiproxy.proxy(proxy).read();
    if (!enabled || toxics.length > 0)
      say("not-healed", `proxy "${proxy}" is already disabled or has a toxic, so no fault was injected`);
  }
  if (problems.length > 0) return { problems, notes: [] };
  for (const end of await Promise.allSettled(events.map((event) => breakOnce(event, beside, startMs))))
    for (const why of end.status === "rejected" ? [(end.reason as Error).message] : end.value)
      say("fault-without-effect", why);
  let isLeftBroken = false;
  // The next trial must not meet these faults.
  for (const { proxy, mayEnable } of broken) {
    const how = { signal: AbortSignal.timeout(HEAL_MS), callMs: CALL_MS, mayReset: false, mayEnable };
    const { healed, trouble } = await heal(toxiproxy, proxy, how);
    if (healed) continue;
    say("not-healed", `the fault could not be healed: proxy "${proxy}": ${trouble.join("; ")}`);
    isLeftBroken = true;
  }
  await pause(RECOVERY_MS + AFTER_MS, signal);
  return {
    problems: [...problems, ...disturbances.lostWatch(deployment)],
    notes: [],
    isLeftBroken,
  };
};

// Says by name, before contact, what a deployment lacks for a disturbance, and makes the injector of each fault.

/** A deployment, or what a plan assumes of one that has not been contacted. */
export type Disturbable = Pick<Deployment, "target" | "faultsMissing"> & {
  faults: { links: Partial<Record<LinkName, unknown>> } | null;
  own?: { store: Pick<OwnParts["store"], "kind"> } | undefined;
};

const linkMissing = (link: LinkName, { faults, faultsMissing }: Disturbable): string | null => {
  if (faults?.links[link] !== undefined) return null;
  return faultsMissing === "" ? `\`toxiproxy.proxies.${link}\`` : `a fault proxy: ${faultsMissing}`;
};

/** Returns what is missing to inject a fault without commands of the target file; `null` if nothing is missing. */
const ownWayMissing = (fault: Fault, can: Disturbable): string | null => {
  const commands = `commands for it (\`faults["${faultKey(fault)}"]\`)`;
  if (fault.by === "commands") return commands;
  if (fault.by === "link") return linkMissing(fault.component, can);
  if (can.own !== undefined) return null;
  return `${commands}: its ${fault.by === "store" ? "store is" : "processes are"} not ours`;
};

/** Names what the deployment lacks for the disturbance; empty if it can be carried out. */
export const disturbanceMissing = (disturbance: disturbances.Disturbance | undefined, can: Disturbable): string[] => {
  const { permits, faults = {}, control } = can.target;
  switch (disturbance?.kind) {
    case undefined:
      return [];
    case "fault-schedule":
      return disturbances.linksOf(disturbance).flatMap((link) => linkMissing(link, can) ?? []);
    case "faults":
      return disturbance.faults.flatMap((fault) => {
        if (permits?.chaos === true && faults[faultKey(fault)] !== undefined) return [];
        return ownWayMissing(fault, can) ?? [];
      });
    case "operator-changes": {
      const apis = control?.api ?? [];
      if (apis.length === 0) return ["`control.api` (to change the deployment as its operator)"];
      if (permits?.chaos !== true) return ["`permits.chaos` (to change the deployment as its operator)"];
      // On another host nothing would undo the change if the network fails.
      const remote = apis.map((url) => new URL(url).hostname).find((host) => !isLoopbackHost(host));
      const lost = `\`control.api\` on loopback: a change on ${remote} would stay when this machine is cut off`;
      return remote === undefined ? [] : [lost];
    }
  }
};

/** Makes an injector from the deployment's proxies or processes; `null` if only commands can inject the fault. */
const ownInjector = async (fault: Fault, beside: disturbances.DisturbanceContext): Promise<FaultInjector | null> => {
  const { faults, own, target } = beside.deployment;
  if (fault.by === "link") {
    const link = faults?.links[fault.component];
    return faults === null || link === undefined ? null : linkInjector(fault, beside.deployment, faults, link);
  }
  if (own === undefined || fault.by === "commands") return null;
  if (fault.by === "process") return endsWithUs(processInjector(fault, own, target.control?.api));
  if (fault.by === "store") return endsWithUs(storeInjector(fault.fault, own));
  return endsWithUs(operatorInjector(fault.fault, { target, own, beside }));
};

/** Has the watchdog beside the proxy, if there is one, hold the fault from before the injection until it is healed. */
const heldRemotely = <Injector extends Pick<FaultInjector, "inject" | "heal" | "undo">>(
  injector: Injector,
  watch: RemoteWatch | undefined,
): Injector => {
  const { undo } = injector;
  if (watch === undefined || (undo.how !== "heal-proxy" && undo.how !== "command")) return injector;
  const held: Held = undo.how === "heal-proxy" ? { proxy: undo.proxy, disables: undo.disables } : { fault: undo.fault };
  return {
    ...injector,
    inject: async (signal) => {
      await watch.hold(held);
      await injector.inject(signal);
    },
    heal: async (signal) => {
      const did = await injector.heal(signal);
      await watch.release(held);
      return did;
    },
  };
};

const injectorFor = async ({ faults, healsInOrder }: disturbances.Faults, beside: disturbances.DisturbanceContext) => {
  const { deployment, stage } = beside;
  const parts: FaultInjector[] = [];
  for (const fault of faults) {
    const injector = (await ownInjector(fault, beside)) ?? (await commandInjector(fault, beside));
    if (injector === null) throw new Error(`${stage} needs ${ownWayMissing(fault, deployment)}`);
    parts.push(heldRemotely(injector, deployment.remoteWatch));
  }
  return atOnce(parts, healsInOrder);
};
