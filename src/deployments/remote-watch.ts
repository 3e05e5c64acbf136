/**
 * The runner's end of a lease with the watchdog beside a remote proxy. A fault is registered there before it is
 * injected, and heartbeats last as long as it does. A lost lease is never taken anew: its faults were healed.
 */
import { bearer, type ControlCall, callControl } from "../client/control-call.ts";
import { clean, shapeOfBody } from "../contract/foreign-text.ts";
import { isObject, parseJson } from "../contract/refusals.ts";

/**
 * A proxy, a fault of the target file's `faults`, or the number of replicas to set again. `disables`: healing must enable the
 * proxy again.
 */
export type Held = { proxy: string; disables: boolean } | { fault: string; replicas?: number };

/** Heartbeats come every second; three in a row may be lost. */
export const LEASE_MS = 4_000;

const SAID_MOST_CHARS = 200;
const HOW = "start it there with `floodgate chaos --watchdog --target FILE`";

type Lease = { url: string; token: string | null };

/** Returns the status and the watchdog's error; of an answer without one its shape, because anything may answer there. */
const callLease = async ({ url, token }: Lease, call: ControlCall): Promise<{ status: number; said: string }> => {
  const headers = await bearer(url, token, { field: "watchdog.token" });
  const { status, text } = await callControl(`${url.replace(/\/+$/, "")}/lease`, { ...call, headers });
  const json = parseJson(text);
  const { error } = isObject(json) ? json : {};
  return { status, said: typeof error === "string" ? clean(error.slice(0, SAID_MOST_CHARS)) : shapeOfBody(text, json) };
};

/** Says why the watchdog cannot be relied on; `null` if it answers. Registers no fault. */
export const whyNoWatchdog = async (lease: Lease): Promise<string | null> => {
  const which = `the watchdog at ${lease.url} (watchdog.url)`;
  try {
    const { status, said } = await callLease(lease, { withinMs: LEASE_MS });
    if (status === 200) return null;
    return `${which} answered ${status} instead of 200: ${status === 401 ? "watchdog.token is not its token" : said}`;
  } catch (error) {
    return `${which} does not answer: ${(error as Error).message}; ${HOW}`;
  }
};

const BEAT_MS = 1_000;
const CALL_MS = 900;

export type RemoteWatch = ReturnType<typeof openRemoteWatch>;

export const openRemoteWatch = (options: Lease & { holder: string }) => {
  const { url, holder } = options;
  const holds = new Set<Held>();
  let lost: string | null = null;
  let lastBeatMs = performance.now();
  let timer: NodeJS.Timeout | undefined;

  const send = async (method: "PUT" | "DELETE", withinMs: number): Promise<void> => {
    const { status, said } = await callLease(options, { method, body: { holder, holds: [...holds] }, withinMs });
    if (status === 200) return;
    const refused = `the watchdog at ${url} refused (${status}): ${said}`;
    if (status === 410) lost = refused;
    throw new Error(refused);
  };
  const beat = async (): Promise<void> => {
    try {
      await send("PUT", CALL_MS);
      lastBeatMs = performance.now();
    } catch (error) {
      const silentMs = performance.now() - lastBeatMs;
      if (holds.size > 0 && silentMs >= LEASE_MS) {
        lost ??= `no heartbeat reached the watchdog at ${url} for ${Math.round(silentMs)} ms: ${(error as Error).message}`;
      }
    }
    schedule();
  };
  const schedule = (): void => {
    clearTimeout(timer);
    if (lost === null && holds.size > 0) timer = setTimeout(() => void beat(), BEAT_MS);
  };

  return {
    /** Says why the watchdog may have healed the faults already; `null` while the lease holds. */
    lost: (): string | null => lost,
    /** Resolves when the watchdog has registered the fault; otherwise throws, and nothing may be broken. */
    hold: async (held: Held): Promise<void> => {
      if (lost !== null) throw new Error(lost);
      holds.add(held);
      try {
        await send("PUT", LEASE_MS);
        lastBeatMs = performance.now();
      } catch (error) {
        holds.delete(held);
        const why = `the watchdog beside the proxy does not hold it: ${(error as Error).message}; ${HOW}`;
        throw new Error(`nothing was injected, because ${why}`);
      }
      schedule();
    },
    release: async (held: Held): Promise<void> => {
      holds.delete(held);
      schedule();
      await send("PUT", LEASE_MS).catch(() => undefined);
    },
    /** Ends the lease; the watchdog heals what is left. */
    close: async (): Promise<void> => {
      clearTimeout(timer);
      holds.clear();
      await send("DELETE", LEASE_MS).catch(() => undefined);
    },
  };
};
