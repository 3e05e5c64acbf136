/** Injects a fault of `link-faults.ts` through toxiproxy, observes its effect through the link, and heals it. */
import type { Deployment, FaultProxies } from "../../deployments/deployment.ts";
import type { TargetName, Undo } from "../../supervision/undo.ts";
import { targetName } from "../../target/target-urls.ts";
import { httpProbe, type LinkProbe, type LinkSeen, observeLink, redisProbe } from "../../tools/link-probe.ts";
import { type Fault, type FaultInjector, TIMES } from "../fault.ts";
import { heal } from "../healing.ts";
import { type LinkFault, linkBudgetMs, makeFault } from "../link-faults.ts";

/** Deadline of a heal. A stop waits this long if toxiproxy hangs. */
const HEAL_MS = 15_000;

type BrokenLink = Pick<FaultProxies, "toxiproxy" | "mayReset" | "restart"> & { proxy: string; fault: LinkFault };

/** `null` for the embedded deployment, whose proxy is a process of the run. */
export const undoTarget = ({ embedded, target, file }: Deployment): TargetName | null =>
  embedded ? null : targetName(target, file);

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
        throw new Error(`proxy "${name}" is not whole beforehand; \`floodgate chaos --heal\` removes old faults`);
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
export const PROBE_OVER_BUDGET_MS = 500;

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
    /** False if the intact link already looks like this fault, so that seeing it later proves nothing. */
    canShow: (fault: LinkFault): boolean => !fault.shows(before),
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
        `the whole link (${watch.speaks}) already looks like this fault: the effect is judged by what callers see`,
      );
  }
  const undo = undoOf(broken, undoTarget(deployment));
  return { ...onLink(broken), ...TIMES, healMs: HEAL_MS, undo, stream: fault.stream, shows, notes };
};
