/**
 * Controls a toxiproxy server. The server can hang, so every call has a deadline and every change is read back. The npm
 * client makes proxies and toxics, over our transport, because its own has no deadline and loses the causes of errors.
 */
import { Toxiproxy as NodeClient, Proxy as NodeProxy } from "toxiproxy-node-client";
import { Agent } from "undici";
import { CONTROL_CALL_MS, type ControlCall, callControl } from "../client/control-call.ts";
import { foreignId, foreignSentence } from "../contract/foreign-text.ts";
import { parseJson } from "../contract/refusals.ts";
import { inTime, pause, waitUntil } from "../supervision/waiting.ts";
import { freePort } from "./link-probe.ts";
import { differenceTo, type Toxic, type ToxicEcho } from "./toxics.ts";

export class ToxiproxyError extends Error {
  override name = "ToxiproxyError";
  /** The HTTP status of an answer other than 2xx. */
  readonly status: number | null;
  /** The transport's error code if no answer came, e.g. `ECONNREFUSED`; or the system error that toxiproxy met, in words. */
  readonly code: string | null;
  constructor(message: string, { status, code }: { status?: number; code?: string | undefined } = {}) {
    super(message);
    this.status = status ?? null;
    this.code = code ?? null;
  }
}

/** Deadline of one call in milliseconds, and what ends it early. */
export type CallOptions = { callMs?: number | undefined; signal?: AbortSignal | undefined };

/** A proxy as the server has it now. `listen` and `upstream` are `host:port`. */
export type ProxyState = { name: string; listen: string; upstream: string; enabled: boolean; toxics: ToxicEcho[] };

/** One proxied link, by name. All promises reject with `ToxiproxyError`. */
export type ProxyControl = ReturnType<Toxiproxy["proxy"]>;
export type Toxiproxy = ReturnType<typeof openToxiproxy>;

type NewProxy = { name: string; upstream: string; enabled?: boolean };

const IN_USE = "address already in use";
/** Why the operating system refuses toxiproxy something, in the words of Go and Node. */
const SYSTEM_ERRORS = [IN_USE, "permission denied", "cannot assign requested address", "too many open files"];
/** A client's connection may hold the address of a disabled proxy for a moment. */
const IN_USE_TRIES = 50;
const IN_USE_POLL_MS = 100;

/** How long the answer to a change is waited for in all, past the call's own deadline. */
const LATE_CHANGE_MS = 300_000;
const LATE_POLL_MS = 20;
/** The status of toxiproxy's own time-out, after which it still carries the change out. */
const GOES_ON = 503;

const openTransport = (apiUrl: string, defaults: CallOptions) => {
  const base = apiUrl.replace(/\/+$/, "");
  // No pipelining and short keep-alive, so that a hanging server does not hold a later call up behind an earlier one.
  const agent = new Agent({ pipelining: 1, keepAliveTimeout: 1_000 });
  let late = 0;
  /** Closing the connection does not cancel a change, so the answer is still waited for after the deadline. */
  const awaited = async <T extends { status: number }>(answered: Promise<T>, signal: AbortSignal): Promise<T> => {
    const came = await inTime(answered, LATE_CHANGE_MS, signal);
    if (came !== "late") return came;
    late += 1;
    const settle = (status?: number): void => {
      if (status !== GOES_ON) late -= 1;
    };
    answered.then(({ status }) => settle(status)).catch(() => settle());
    throw signal.reason;
  };
  return {
    /** Number of changes that were not answered in time; toxiproxy may still carry them out when its lock is free. */
    underWay: () => late,
    /** Waits for such changes until the signal. One that toxiproxy answered with its own time-out never settles. */
    settled: (signal: AbortSignal) =>
      waitUntil(async () => late === 0, { forMs: LATE_CHANGE_MS, pollMs: LATE_POLL_MS, signal }),
    /** The parsed answer (text if it is not JSON, `undefined` if it is empty). Throws `ToxiproxyError`. */
    call: async (method: ControlCall["method"], path: string, body?: unknown, options: CallOptions = {}) => {
      const callMs = options.callMs ?? defaults.callMs ?? CONTROL_CALL_MS;
      const outer = options.signal ?? defaults.signal;
      const deadline = AbortSignal.timeout(callMs);
      const signal = outer === undefined ? deadline : AbortSignal.any([deadline, outer]);
      const what = `toxiproxy at ${base}: ${method} ${path}`;
      const failed = ({ code, message }: NodeJS.ErrnoException): never => {
        const noAnswer = deadline.aborted
          ? `no answer within ${callMs} ms; toxiproxy may be wedged`
          : (code ?? message);
        const why = outer?.aborted === true ? "given up, because the run was asked to stop" : noAnswer;
        throw new ToxiproxyError(`${what}: ${why}`, { code });
      };
      if (signal.aborted) return failed(signal.reason);
      const call = { method, body, dispatcher: agent, withinMs: LATE_CHANGE_MS };
      const isRead = method === "GET";
      const answered = callControl(`${base}${path}`, isRead ? { ...call, signal } : call);
      const { status, text } = await (isRead ? answered : awaited(answered, signal)).catch(failed);
      const json = parseJson(text);
      if (status >= 200 && status < 300) return text === "" ? undefined : (json ?? text);
      const error = String((json as { error?: unknown } | null | undefined)?.error ?? text.trim());
      const ofSystem = SYSTEM_ERRORS.find((words) => error.includes(words));
      const said = ofSystem ?? foreignSentence(error);
      throw new ToxiproxyError(`${what} answered ${status}: ${said}`, { status, code: ofSystem });
    },
    close: () => agent.destroy(),
  };
};

const stateOf = (answer: unknown, from: string): ProxyState => {
  const state = answer as Partial<ProxyState> | undefined;
  const texts = [state?.name, state?.listen, state?.upstream];
  if (typeof state?.enabled !== "boolean" || texts.some((text) => typeof text !== "string"))
    throw new ToxiproxyError(`${from} answered something that is not a proxy; is this URL toxiproxy's API?`);
  return { ...(state as ProxyState), toxics: state.toxics ?? [] };
};

/** The path of a proxy. Names are checked, because the npm client puts them into paths unescaped. */
const pathOf = (name: string): string => {
  if (/^[A-Za-z0-9_.-]+$/.test(name)) return `/proxies/${name}`;
  throw new Error(`a proxy's name is letters, digits, "_", "." and "-", not "${name}"`);
};

const ignoring404 = (error: unknown): void => {
  if (!(error instanceof ToxiproxyError && error.status === 404)) throw error;
};

export const openToxiproxy = (apiUrl: string, defaults: CallOptions = {}) => {
  const { call, ...transport } = openTransport(apiUrl, defaults);
  const read = async (name: string, options?: CallOptions): Promise<ProxyState> =>
    stateOf(await call("GET", pathOf(name), undefined, options), apiUrl);
  const clientWith = (options?: CallOptions): NodeClient => {
    const client = new NodeClient("");
    const post = async (path: string, body?: unknown) => ({ data: await call("POST", path, body, options) });
    client.api = { post } as unknown as NodeClient["api"];
    return client;
  };

  const proxy = (name: string) => {
    const path = pathOf(name);
    const toxicPath = (toxic: string): string => `${path}/toxics/${encodeURIComponent(toxic)}`;
    /** Removes a toxic; a missing one is not an error. For a toxic that holds data back, use `takeToxicAway`. */
    const removeToxic = async (toxic: string, options?: CallOptions): Promise<void> =>
      void (await call("DELETE", toxicPath(toxic), undefined, options).catch(ignoring404));
    return {
      name,
      apiUrl,
      read: (options?: CallOptions) => read(name, options),
      removeToxic,
      /** Changes attributes of a toxic, on open connections too; a missing toxic is not an error. */
      updateToxic: async (toxic: string, attributes: Record<string, number>, options?: CallOptions): Promise<void> =>
        void (await call("PATCH", toxicPath(toxic), { attributes }, options).catch(ignoring404)),
      /** Adds the toxic and reads it back. If the server has another one, the toxic is removed again. */
      addToxic: async (toxic: Toxic, options?: CallOptions): Promise<void> => {
        const about = { name, listen: "", upstream: "", enabled: true, toxics: [] };
        await new NodeProxy(clientWith(options), about).addToxic<unknown>({ ...toxic, toxicity: 1 });
        const echo = (await read(name, options)).toxics.find((one) => one.name === toxic.name);
        const difference = echo === undefined ? "the server does not list it" : differenceTo(toxic, echo);
        if (difference === null) return;
        await removeToxic(toxic.name, options).catch(() => {});
        throw new ToxiproxyError(`toxic "${toxic.name}" on proxy "${name}" read back differently: ${difference}`);
      },
      /** `false` closes the listener and every connection. The result is read back. */
      setEnabled: async (enabled: boolean, options?: CallOptions): Promise<void> => {
        const isRefused = (error: unknown): boolean => {
          if (error instanceof ToxiproxyError && error.code === IN_USE) return true;
          throw error;
        };
        const change = () => call("PATCH", path, { enabled }, options).then(() => false, isRefused);
        for (let tries = 1; await change(); tries += 1) {
          const { listen } = await read(name, options);
          const taken = `proxy "${name}" stays disabled: another program uses ${listen}, where the proxy listens`;
          if (tries === IN_USE_TRIES) throw new ToxiproxyError(taken, { code: IN_USE });
          await pause(IN_USE_POLL_MS, options?.signal);
        }
        const now = await read(name, options);
        if (now.enabled === enabled) return;
        throw new ToxiproxyError(`proxy "${name}": asked for enabled=${enabled}, read back ${now.enabled}`);
      },
    };
  };

  return {
    ...transport,
    apiUrl,
    proxy,
    version: async (): Promise<string> => {
      const answer = (await call("GET", "/version")) as { version?: unknown } | undefined;
      if (typeof answer?.version === "string") return foreignId(answer.version);
      throw new ToxiproxyError(`${apiUrl}/version has no version in it; is this URL toxiproxy's API?`);
    },
    list: async (options?: CallOptions): Promise<ProxyState[]> => {
      const answer = (await call("GET", "/proxies", undefined, options)) as Record<string, unknown>;
      return Object.values(answer).map((one) => stateOf(one, `${apiUrl}/proxies`));
    },
    /** The proxy listens on a port of 127.0.0.1 that stays free while the proxy is disabled. */
    createProxy: async ({ enabled = true, ...asked }: NewProxy): Promise<ProxyState> => {
      pathOf(asked.name);
      await clientWith().createProxy({ ...asked, listen: `127.0.0.1:${await freePort()}`, enabled });
      const state = await read(asked.name);
      if (state.upstream === asked.upstream && state.enabled === enabled) return state;
      const wanted = `asked for upstream ${asked.upstream}, enabled ${enabled}`;
      throw new ToxiproxyError(`proxy "${asked.name}" read back as ${JSON.stringify(state)}, ${wanted}`);
    },
    removeProxy: async (name: string): Promise<void> => void (await call("DELETE", pathOf(name)).catch(ignoring404)),
    /** Enables every proxy of the server and removes all toxics, also those of others. */
    reset: async (options?: CallOptions): Promise<void> => void (await call("POST", "/reset", undefined, options)),
    [Symbol.asyncDispose]: transport.close,
  };
};

/** Number of pauses and their bounds, in which held-back data is written and connections without a client end. */
const LOOKS = 3;
const SETTLE_MS = 50;
const SETTLE_MOST_MS = 750;

/** Length of a pause: a slicer waits between pieces, and notices a lost client at one of its next two pieces. */
const settleMs = ({ attributes }: Pick<ToxicEcho, "attributes">): number =>
  Math.min(SETTLE_MOST_MS, SETTLE_MS + (1.5 * Number(attributes.delay ?? 0)) / 1_000);

/** Reads the proxy after each pause: an answer proves that the server got CPU time, even on a busy machine. */
const settle = async (proxy: ProxyControl, ms: number, options: CallOptions): Promise<void> => {
  for (let look = 0; look < LOOKS; look += 1) {
    await pause(ms, options.signal);
    await proxy.read(options);
  }
};

/** Reports whether the proxy is disabled for a moment while this toxic is removed. */
export const disablesWhenRemoved = ({ type }: Pick<ToxicEcho, "type">): boolean => type === "slicer";

/**
 * Lets data pass that a toxic holds back, then removes the toxic. While toxiproxy removes such a toxic (latency, slicer),
 * it holds a lock until the client has read the data; if the client gave up, the whole server hangs (toxiproxy's issues
 * 558 and 412).
 */
export const takeToxicAway = async (
  proxy: ProxyControl,
  toxic: Pick<ToxicEcho, "name" | "type" | "attributes">,
  isEnabled: boolean,
  options: CallOptions = {},
): Promise<void> => {
  if (toxic.type === "latency") {
    await proxy.updateToxic(toxic.name, { latency: 0, jitter: 0 }, options);
    await settle(proxy, SETTLE_MS, options);
  }
  const down = isEnabled && disablesWhenRemoved(toxic);
  if (down) {
    await proxy.setEnabled(false, options);
    await settle(proxy, settleMs(toxic), options);
  }
  await proxy.removeToxic(toxic.name, options);
  if (down) await proxy.setEnabled(true, options);
};
