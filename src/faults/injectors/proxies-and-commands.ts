/** Injects a fault through toxiproxy or by the target file's commands, shows its effect through the link, heals it. */
import type { Deployment, FaultProxies } from "../../deployments/deployment.ts";
import { runShellCommand } from "../../supervision/child.ts";
import type { CommandUndo, TargetName, Undo } from "../../supervision/journal.ts";
import { targetName } from "../../target/target-file.ts";
import { httpProbe, type LinkProbe, type LinkSeen, observeLink, redisProbe } from "../../tools/link-probe.ts";
import type { DisturbanceContext } from "../disturbance.ts";
import { type Fault, type FaultInjector, faultKey, TIMES } from "../fault.ts";
import { heal } from "../healing.ts";
import { type LinkFault, linkBudgetMs, makeFault } from "../link-faults.ts";

/** Deadline of a heal. A stop waits this long if toxiproxy hangs. */
export const HEAL_MS = 15_000;

type BrokenLink = Pick<FaultProxies, "toxiproxy" | "mayReset" | "restart"> & { proxy: string; fault: LinkFault };

/** `null` for the embedded deployment, whose proxy is a process of the run. */
export const undoTarget = ({ embedded, target, file }: Deployment) => (embedded ? null : targetName(target, file));

/** `target`: `null` if the proxy ends with the run. */
export const undoOf = (
  { toxiproxy, proxy, fault }: Pick<BrokenLink, "toxiproxy" | "proxy" | "fault">,
  target: TargetName | null,
): Undo =>
  target === null
    ? { how: "nothing" }
    : { how: "heal-proxy", api_url: toxiproxy.apiUrl, proxy, disables: fault.disables, target };

export const onLink = (broken: BrokenLink): Pick<FaultInjector, "inject" | "heal"> => {
  const { toxiproxy, fault, mayReset, restart, proxy: name } = broken;
  const proxy = toxiproxy.proxy(name);
  return {
    inject: async (signal) => {
      const before = await proxy.read({ signal });
      if (!before.enabled || before.toxics.length > 0)
        throw new Error(
          `proxy "${name}" is already disabled or has a toxic, so no fault is put on it; \`floodgate chaos --heal\` removes old faults`,
        );
      await fault.put(proxy, { signal });
    },
    heal: async (signal) => {
      const took = await fault.take(proxy, { signal }).catch((error: Error) => error.message);
      const mayEnable = mayReset || fault.disables;
      const healing = await heal(toxiproxy, name, { signal, mayReset, mayEnable, restart });
      if (healing.healed) return took === undefined ? healing.did : [`take failed (${took})`, ...healing.did];
      const steps = ["take", ...healing.did].join(", ");
      throw new Error(
        `proxy "${name}" is not whole after ${steps}: ${[took ?? [], healing.trouble].flat().join("; ")}`,
      );
    },
  };
};

/** A probe waits this much longer than a caller's budget; silence until then is the fault's. */
const PROBE_OVER_BUDGET_MS = 500;

/** A link counts as changed from this slowdown on; a busy machine explains less. */
const SLOWER_TIMES = 5;
const SLOWER_MS = 200;

/** Makes the reply long enough for `truncated-reply` to cut it and for `trickle` to split it. */
const PINGS = 30;

/**
 * Looks at an intact link, to compare it with the link under a fault. Redis and HTTP get a request that they answer in
 * full, other protocols one that they reject. `null`: no connection. `link`: the listener's `host:port`.
 */
export const watchLink = async (link: string, giveUpMs: number) => {
  const watchWith = (speaks: "http" | "redis" | "something else", probe: LinkProbe, before: LinkSeen) => ({
    speaks,
    /**
     * False if the intact link already looks like this fault, so that seeing it later proves nothing. A dependency that hangs
     * up on what it does not understand shows no reply, so nothing shows what becomes of its replies; nor does a short reply show
     * a cut behind its end.
     */
    canShow: (fault: LinkFault): boolean =>
      !fault.shows(before) &&
      before.bytes >= fault.leastBytes &&
      (speaks !== "something else" || fault.stream !== "downstream"),
    look: () => observeLink(probe),
    isChanged: (now: LinkSeen): boolean =>
      now.ended !== before.ended || now.doneMs > SLOWER_TIMES * before.doneMs + SLOWER_MS,
  });
  // PING first: Redis treats an HTTP request as an attack, while an HTTP server only rejects a PING.
  const pings = redisProbe(link, giveUpMs, PINGS);
  const pinged = await observeLink(pings);
  if (!pinged.connected) return null;
  if (pinged.ended === "complete") return watchWith("redis", pings, pinged);
  const get = httpProbe(link, "/health", giveUpMs);
  const got = await observeLink(get);
  return watchWith(got.ended === "complete" ? "http" : "something else", get, got);
};

export const linkInjector = async (
  { component, fault: name }: Extract<Fault, { by: "link" }>,
  deployment: Deployment,
  faults: FaultProxies,
  { proxy, listen }: { proxy: string; listen: string },
): Promise<FaultInjector> => {
  const { limits } = deployment.target;
  const budgetMs = linkBudgetMs(component, limits);
  const giveUpMs = budgetMs + PROBE_OVER_BUDGET_MS;
  const fault = makeFault(name, { budgetMs });
  const broken = { ...faults, proxy, fault };
  const notes: string[] = [];
  const hidden =
    "`limits.revocation_budget_ms` is not stated: where records are cached for longer, the fault stays hidden";
  if (component === "keys" && limits?.revocation_budget_ms === undefined) notes.push(hidden);
  let shows: FaultInjector["shows"] = async () =>
    fault.shows(await observeLink(httpProbe(listen, "/health", giveUpMs)));
  // Every link of the embedded deployment speaks HTTP, except the one to Redis.
  if (!deployment.embedded || (component === "limiter" && deployment.own?.store.kind === "redis")) {
    const watch = await watchLink(listen, giveUpMs);
    const canShow = watch?.canShow(fault) === true;
    shows = watch !== null && canShow ? async () => fault.shows(await watch.look()) : null;
    if (watch === null) notes.push(`${listen} cannot be reached from here: the effect is judged by what callers see`);
    else if (!canShow)
      notes.push(
        `the whole link (${watch.speaks}) looks like this fault, or its reply cannot show it: the effect is judged by what callers see`,
      );
  }
  const undo = undoOf(broken, undoTarget(deployment));
  return { ...onLink(broken), ...TIMES, healMs: HEAL_MS, undo, stream: fault.stream, shows, notes };
};

/** `status` exits with 0 while the fault is in force, with 1 while it is not. */
export type FaultCommands = { inject: readonly string[]; heal: readonly string[]; status?: string };

/** `onSpawn` supervises each command: one that outlives the runner could change the deployment again. */
type Supervised = { cwd: string; onSpawn(pid: number): () => void };

/** Returns a function that runs commands one after the other, up to the first that fails. */
export const commandRunner =
  ({ cwd, onSpawn }: Supervised) =>
  async (commands: readonly string[], what: string, signal: AbortSignal): Promise<void> => {
    for (const command of commands) {
      const forgets: (() => void)[] = [];
      const spawned = (pid: number): void => void forgets.push(onSpawn(pid));
      await runShellCommand(command, { what, cwd, signal, onSpawn: spawned }).finally(() => forgets[0]?.());
    }
  };

export const byCommands = ({ inject, heal, status }: FaultCommands, supervised: Supervised) => {
  const run = commandRunner(supervised);
  /** `unknown`: no status command, or it failed. */
  const look = async (signal: AbortSignal): Promise<"in" | "out" | "unknown"> => {
    if (status === undefined) return "unknown";
    try {
      await run([status], "status command", signal);
      return "in";
    } catch (error) {
      // Other exit codes mean that the status command could not tell.
      return (error as Error).cause === 1 ? "out" : "unknown";
    }
  };
  const requireOut = async (signal: AbortSignal, otherwise: string): Promise<void> => {
    if ((await look(signal)) === "in") throw new Error(`the status command says that the fault is ${otherwise}`);
  };
  return {
    status: look,
    inject: async (signal: AbortSignal): Promise<void> => {
      await requireOut(signal, "already in force; `floodgate chaos --heal` removes old faults");
      await run(inject, "inject command", signal);
    },
    heal: async (signal: AbortSignal): Promise<string[]> => {
      await run(heal, "heal command", signal);
      await requireOut(signal, "still in force after healing");
      return [`${heal.length} heal command(s)`];
    },
  };
};

const BY_CALLERS = { shows: null, notes: ["injected by commands: the effect is judged by what callers see"] };

/**
 * Shows the effect through the named proxy if it can be reached and the fault changes what comes through: a store without
 * memory still answers a ping. Otherwise callers have to see it.
 */
const effectOf = async ({ by, component }: Fault, { faults, target }: Deployment) => {
  if (component === "api" || component === "service" || by === "store" || by === "commands") return BY_CALLERS;
  const way = faults?.links[component];
  const giveUpMs = linkBudgetMs(component, target.limits) + PROBE_OVER_BUDGET_MS;
  const watch = way === undefined ? null : await watchLink(way.listen, giveUpMs);
  if (watch === null) return BY_CALLERS;
  return {
    shows: async () => watch.isChanged(await watch.look()),
    notes: [`injected by commands: the effect is seen through the proxy "${way?.proxy}"`],
  };
};

/** Returns `null` if the target file has no commands for the fault. */
export const commandInjector = async (
  fault: Fault,
  { context, deployment }: DisturbanceContext,
): Promise<FaultInjector | null> => {
  const key = faultKey(fault);
  const commands = deployment.target.faults?.[key];
  if (commands === undefined) return null;
  const cwd = deployment.folder;
  const onSpawn = (pid: number) => context.supervisor.adopt(`a command of faults.${key}`, pid);
  const { inject, heal } = byCommands(commands, { cwd, onSpawn });
  // Proves that healing works before anything is broken.
  await heal(AbortSignal.any([context.signal, AbortSignal.timeout(TIMES.healMs)])).catch((error: Error) => {
    throw new Error(
      `faults.${key}: nothing was injected, because the heal commands failed beforehand: ${error.message}`,
    );
  });
  const target = targetName(deployment.target, deployment.file);
  const undo: CommandUndo = { how: "command", fault: key, target, commands: [...commands.heal], cwd };
  return { inject, heal, undo, stream: "both", ...TIMES, ...(await effectOf(fault, deployment)) };
};
