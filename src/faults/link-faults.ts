/** The faults of a proxied link: the toxic or disabled proxy that causes each, and what a client then sees. */
import type { FaultLine } from "../history/line.ts";
import { dependencyBudgetMs, type Limits } from "../history/run-document.ts";
import { pause } from "../supervision/waiting.ts";
import type { LinkSeen } from "../tools/link-probe.ts";
import type { Toxic, ToxicShape, ToxicStream } from "../tools/toxics.ts";
import { type CallOptions, disablesWhenRemoved, type ProxyControl, takeToxicAway } from "../tools/toxiproxy.ts";

/** `upstream`: the request does not reach the dependency. `downstream`: it is carried out; its reply is affected. */
export type FaultStream = ToxicStream | "both";

type Row = {
  stream: FaultStream;
  /** The description for reports. `ms`: as returned by `sizeMs`. */
  what: (ms: number, budgetMs: number) => string;
  /** The fault's delay in milliseconds, derived from the caller's time budget on this link. */
  sizeMs?: (budgetMs: number) => number;
  toxic?: (ms: number) => ToxicShape;
  /** The proxy is disabled and enabled in turn for the whole duration. */
  toggles?: true;
  /** A shorter reply comes whole and does not show the fault; default 0. */
  leastBytes?: number;
  shows: (seen: LinkSeen, ms: number, budgetMs: number) => boolean;
};

/** Half a period of flapping: shorter than a circuit breaker or a connection pool needs to settle. */
const TOGGLE_MS = 150;
/** Lies within the head of any HTTP answer. Bytes count per connection, so after shorter replies a later one is cut. */
const CUT_AFTER_BYTES = 120;
/** Size of a piece under `trickle`: a tenth of the budget apart, 100 bytes take longer than the budget. */
const CRUMB_BYTES = 8;

const isRefused = ({ ended }: LinkSeen): boolean => ended === "refused";
const isSilent = ({ connected, ended, bytes }: LinkSeen): boolean => connected && ended === "silent" && bytes === 0;
const isCut = ({ ended }: LinkSeen): boolean => ended === "closed" || ended === "reset";
const isLate: Row["shows"] = ({ connected, firstByteMs, ended, doneMs }, _ms, budgetMs) =>
  connected && (firstByteMs === null ? ended === "silent" && doneMs > budgetMs : firstByteMs > budgetMs);
const swallow = (): ToxicShape => ({ type: "timeout", attributes: { timeout: 0 } });
const delay = (ms: number): ToxicShape => ({ type: "latency", attributes: { latency: ms, jitter: 0 } });
const cutAfter = (bytes: number): ToxicShape => ({ type: "limit_data", attributes: { bytes } });
const crumble = (ms: number): ToxicShape => ({
  type: "slicer",
  attributes: { average_size: CRUMB_BYTES, size_variation: 0, delay: ms * 1_000 },
});

// biome-ignore format: a fault on two lines
const ROWS: Readonly<Record<string, Row>> = {
  refused: { stream: "both", shows: isRefused,
    what: () => "the link is down: open connections are closed and new ones refused" },
  // Acts like a balancer without upstreams, which looks healthy to a connection pool.
  "accepted-then-closed": { stream: "upstream", toxic: () => cutAfter(0), shows: (seen) => seen.connected && seen.bytes === 0 && isCut(seen),
    what: () => "connections are accepted and closed when the request comes; nothing reaches the dependency" },
  "request-lost": { stream: "upstream", toxic: swallow, shows: isSilent,
    what: () => "requests vanish on their way: not done, and nothing comes back" },
  "reply-lost": { stream: "downstream", toxic: swallow, shows: isSilent,
    what: () => "replies vanish on their way: done, and nothing comes back" },
  // Toxiproxy resets only connections opened while the toxic exists. A `timeout` above 0 would delay its removal.
  reset: { stream: "downstream", toxic: () => ({ type: "reset_peer", attributes: { timeout: 0 } }), shows: ({ connected, ended }) => connected && ended === "reset",
    what: () => "connections are reset in place of the reply: done, and no answer" },
  // 0.4 of the budget leaves room for a busy host. Timers of proxy and client differ by less than a tenth.
  "slow-within-budget": { stream: "downstream", sizeMs: (budgetMs) => Math.round(budgetMs * 0.4), toxic: delay, shows: ({ firstByteMs }, ms) => firstByteMs !== null && firstByteMs >= ms * 0.9,
    what: (ms, budgetMs) => `replies come ${ms} ms late, inside the budget of ${budgetMs} ms` },
  "slow-beyond-budget": { stream: "downstream", sizeMs: (budgetMs) => Math.round(budgetMs * 4), toxic: delay, shows: isLate,
    what: (ms, budgetMs) => `replies come ${ms} ms late, beyond the budget of ${budgetMs} ms` },
  "truncated-reply": { stream: "downstream", toxic: () => cutAfter(CUT_AFTER_BYTES), leastBytes: CUT_AFTER_BYTES + 1, shows: (seen) => seen.bytes > 0 && isCut(seen),
    what: () => `connections end after ${CUT_AFTER_BYTES} bytes of reply: done, and the answer is cut short` },
  // A caller that restarts its timer on each read waits forever.
  trickle: { stream: "downstream", sizeMs: (budgetMs) => Math.max(1, Math.round(budgetMs / 10)), toxic: crumble, shows: ({ pieces, doneMs }, ms) => pieces >= 3 && doneMs > ms * 2,
    what: (ms) => `replies come in crumbs of up to ${CRUMB_BYTES} bytes, ${ms} ms apart` },
  flapping: { stream: "both", toggles: true, shows: isRefused,
    what: () => `the link goes down for ${TOGGLE_MS} ms and up for ${TOGGLE_MS} ms, over and over` },
};

export const LINK_FAULTS: readonly string[] = Object.keys(ROWS);

/** The prefix by which healing recognises our toxics. */
const TOXIC_PREFIX = "floodgate-";

export const isOurToxic = ({ name }: { name: string }): boolean => name.startsWith(TOXIC_PREFIX);

/** A toxic without effect: on a disabled proxy it shows, even if this machine is gone, that Floodgate disabled it. */
const SIGN = { ...delay(0), stream: "downstream" as const };

export type LinkFault = ReturnType<typeof makeFault>;

/** Toggles the proxy until the signal fires. Resolves to the error that ended it early, if any. */
const toggle = async (proxy: ProxyControl, callMs: number | undefined, over: AbortSignal): Promise<Error | null> => {
  try {
    for (let isUp = true; ; isUp = !isUp) {
      await pause(TOGGLE_MS, over);
      if (over.aborted) return null;
      // The signal given to `put` is not passed on, because it bounds only the injection.
      await proxy.setEnabled(isUp, { callMs });
    }
  } catch (error) {
    return error as Error;
  }
};

export const makeFault = (name: string, { budgetMs }: { budgetMs: number }) => {
  const row = Object.hasOwn(ROWS, name) ? ROWS[name] : undefined;
  if (row === undefined) throw new Error(`there is no fault "${name}"; there are ${LINK_FAULTS.join(", ")}`);
  const ms = row.sizeMs?.(budgetMs) ?? 0;
  const shape = row.toxic?.(ms);
  const toxic = { ...SIGN, ...shape, ...(row.stream !== "both" && { stream: row.stream }) };
  const named = { ...toxic, name: `${TOXIC_PREFIX}${name}` } as Toxic;
  let over: AbortController | undefined;
  let toggling: Promise<Error | null> | undefined;
  return {
    name,
    stream: row.stream,
    what: row.what(ms, budgetMs),
    /** The fault or its removal disables the proxy, so healing has to enable it. */
    disables: shape === undefined || disablesWhenRemoved(shape),
    shows: (seen: LinkSeen): boolean => row.shows(seen, ms, budgetMs),
    leastBytes: row.leastBytes ?? 0,
    put: async (proxy: ProxyControl, options?: CallOptions): Promise<void> => {
      await proxy.addToxic(named, options);
      if (shape !== undefined) return;
      await proxy.setEnabled(false, options);
      if (row.toggles !== true) return;
      over = new AbortController();
      toggling = toggle(proxy, options?.callMs, over.signal);
    },
    take: async (proxy: ProxyControl, options?: CallOptions): Promise<void> => {
      if (shape !== undefined) {
        const { enabled } = await proxy.read(options);
        return takeToxicAway(proxy, named, enabled, options);
      }
      over?.abort();
      const stopped = (await toggling) ?? null;
      // A disabled proxy has no connection for which the removal would wait.
      await proxy.setEnabled(false, options);
      await proxy.removeToxic(named.name, options);
      await proxy.setEnabled(true, options);
      if (stopped !== null) throw new Error(`flapping stopped early: ${stopped.message}`);
    },
  };
};

export const faultTeller = (
  stage: string,
  link: string,
  { name: fault, stream }: Pick<LinkFault, "name" | "stream">,
  nowUs: () => number,
  onLine: (line: FaultLine) => void,
) => {
  const about = { type: "fault", stage, experiment: `${link}-${fault}`, link, fault, stream } as const;
  return (phase: FaultLine["phase"], effect?: { took_effect: boolean }): void =>
    onLine({ ...about, phase, at_us: nowUs(), ...effect });
};

const DISABLING: ReadonlySet<string> = new Set(
  LINK_FAULTS.filter((name) => makeFault(name, { budgetMs: 1_000 }).disables),
);

export const disablesProxy = (name: string): boolean => DISABLING.has(name);

export const isSignOfDisabling = ({ name }: { name: string }): boolean =>
  isOurToxic({ name }) && DISABLING.has(name.slice(TOXIC_PREFIX.length));

const BUDGET_MS = 1_000;
/** Stands in for the budget of callers, who have none: a slow edge has to end within a stage. */
const EDGE_BUDGET_MS = 60;

/** How long the caller on a link waits for an answer. */
export const linkBudgetMs = (link: "limiter" | "keys" | "edge", limits: Limits = {}): number =>
  link === "edge" ? EDGE_BUDGET_MS : (dependencyBudgetMs(link, limits) ?? BUDGET_MS);
