/**
 * Control of a toxiproxy server, which can wedge: every call has a deadline. A 200 alone proves nothing, so every
 * change is read back and compared. The npm client creates, over our transport: its own has no deadline and loses
 * causes.
 */
import { Toxiproxy as NodeClient, Proxy as NodeProxy } from "toxiproxy-node-client";
import { Agent } from "undici";
import { CONTROL_CALL_MS, type ControlCall, callControl } from "../client/control-call.ts";
import { parseJson } from "../contract/envelopes.ts";
import { foreignId, foreignSentence } from "../contract/foreign-text.ts";
import { pause } from "../supervision/waiting.ts";
import { differenceTo, type Toxic, type ToxicEcho, whatIsWrongWith } from "./toxics.ts";

export class ToxiproxyError extends Error {
  override name = "ToxiproxyError";
  /** The server's, or `null` when no answer came. */
  readonly status: number | null;
  /** The transport's word where no answer came, e.g. `ECONNREFUSED`. */
  readonly code: string | null;
  constructor(message: string, status: number | null, code: string | null = null) {
    super(message);
    this.status = status;
    this.code = code;
  }
}

/** Deadline of one call in milliseconds, and what ends it early. */
export type CallOptions = { callMs?: number | undefined; signal?: AbortSignal | undefined };

/** A proxy as the server has it now. `listen` and `upstream` are `host:port`. */
export type ProxyState = { name: string; listen: string; upstream: string; enabled: boolean; toxics: ToxicEcho[] };

/** One proxied link, by name. All promises reject with `ToxiproxyError`. */
export type ProxyControl = {
  readonly name: string;
  readonly apiUrl: string;
  read: (options?: CallOptions) => Promise<ProxyState>;
  /** Adds the toxic and compares what the server then has. On a difference the toxic is taken away again. */
  addToxic: (toxic: Toxic, options?: CallOptions) => Promise<void>;
  /** Changes attributes of a toxic, on open connections too; one that is not there is not an error. */
  updateToxic: (name: string, attributes: Record<string, number>, options?: CallOptions) => Promise<void>;
  /** A toxic that is not there is not an error. See `takeToxicAway` for one that holds data back. */
  removeToxic: (name: string, options?: CallOptions) => Promise<void>;
  /** `false` closes the listener and every connection; read back. */
  setEnabled: (enabled: boolean, options?: CallOptions) => Promise<void>;
};

type NewProxy = { name: string; listen: string; upstream: string; enabled?: boolean };

export type Toxiproxy = {
  readonly apiUrl: string;
  version: (options?: CallOptions) => Promise<string>;
  list: (options?: CallOptions) => Promise<ProxyState[]>;
  /** `listen` with port 0 lets the OS choose; the answer has the real one. */
  createProxy: (proxy: NewProxy, options?: CallOptions) => Promise<ProxyState>;
  removeProxy: (name: string, options?: CallOptions) => Promise<void>;
  /** Enables every proxy and drops all toxics of the whole server. */
  reset: (options?: CallOptions) => Promise<void>;
  proxy: (name: string) => ProxyControl;
  /** Changes that were not answered in time and may still be carried out: toxiproxy does them when its lock is free again. */
  underWay: () => number;
  settled: (signal: AbortSignal) => Promise<void>;
  close: () => Promise<void>;
};

/** A change that toxiproxy holds back for longer is given up. */
const LATE_CHANGE_MS = 300_000;
/** Toxiproxy's own time-out answers this, and goes on with the work behind it. */
const GOES_ON = 503;

type Transport = Pick<Toxiproxy, "underWay" | "settled" | "close"> & {
  /** The parsed answer (text where it is not JSON, `undefined` where it is empty). Throws `ToxiproxyError`. */
  call: (method: ControlCall["method"], path: string, body?: unknown, options?: CallOptions) => Promise<unknown>;
};

const openTransport = (apiUrl: string, defaults: CallOptions): Transport => {
  const base = apiUrl.replace(/\/+$/, "");
  // A wedged server must not hold a later call up behind an earlier one, hence no pipelining and short keep-alive.
  const agent = new Agent({ pipelining: 1, keepAliveTimeout: 1_000 });
  const late = new Set<Promise<void>>();
  /** Hanging up does not take a change back, so its answer is waited for behind the deadline. */
  const inTime = async <T extends { status: number }>(answered: Promise<T>, signal: AbortSignal): Promise<T> => {
    const over = new AbortController();
    const tooLate = new Promise<never>((_, reject) => {
      const fire = (): void => {
        const done: Promise<void> = answered.then(
          ({ status }) => void (status !== GOES_ON && late.delete(done)),
          () => void late.delete(done),
        );
        late.add(done);
        reject(signal.reason);
      };
      signal.addEventListener("abort", fire, { once: true, signal: over.signal });
    });
    return Promise.race([answered, tooLate]).finally(() => over.abort());
  };
  return {
    underWay: () => late.size,
    settled: async (signal) => {
      while (late.size > 0 && !signal.aborted) {
        const fired = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
        const before = late.size;
        await Promise.race([fired, Promise.any([...late])]);
        // What toxiproxy itself gave up on is never heard of again.
        if (late.size === before) await fired;
      }
    },
    call: async (method, path, body, options = {}) => {
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
        throw new ToxiproxyError(`${what}: ${why}`, null, code ?? null);
      };
      if (signal.aborted) return failed(signal.reason);
      const call = { method, body, dispatcher: agent, withinMs: LATE_CHANGE_MS };
      const isRead = method === "GET";
      const answered = callControl(`${base}${path}`, isRead ? { ...call, signal } : call);
      const { status, text } = await (isRead ? answered : inTime(answered, signal)).catch(failed);
      const json = parseJson(text);
      if (status >= 200 && status < 300) return text === "" ? undefined : (json ?? text);
      const said = foreignSentence(String((json as { error?: unknown } | null | undefined)?.error ?? text.trim()));
      throw new ToxiproxyError(`${what} answered ${status}: ${said}`, status);
    },
    close: () => agent.destroy(),
  };
};

const stateOf = (answer: unknown, from: string): ProxyState => {
  const state = answer as Partial<ProxyState> | undefined;
  if (typeof state?.name !== "string" || typeof state.enabled !== "boolean")
    throw new ToxiproxyError(`${from} answered something that is not a proxy; is this URL toxiproxy's API?`, 200);
  return { ...(state as ProxyState), toxics: state.toxics ?? [] };
};

/** The npm client puts names into paths as they are. */
const pathOf = (name: string): string => {
  if (/^[A-Za-z0-9_.-]+$/.test(name)) return `/proxies/${name}`;
  throw new Error(`a proxy's name is letters, digits, "_", "." and "-", not "${name}"`);
};

const ignoring404 = (error: unknown): void => {
  if (!(error instanceof ToxiproxyError && error.status === 404)) throw error;
};

export const openToxiproxy = (apiUrl: string, defaults: CallOptions = {}): Toxiproxy => {
  const { call, ...transport } = openTransport(apiUrl, defaults);
  const read = async (name: string, options?: CallOptions): Promise<ProxyState> =>
    stateOf(await call("GET", pathOf(name), undefined, options), apiUrl);
  const change = async (
    method: "PATCH" | "DELETE",
    path: string,
    body: unknown,
    options?: CallOptions,
  ): Promise<void> => void (await call(method, path, body, options).catch(ignoring404));
  const clientWith = (options: CallOptions | undefined): NodeClient => {
    const client = new NodeClient("");
    const post = async (path: string, body?: unknown) => ({ data: await call("POST", path, body, options) });
    client.api = { post } as unknown as NodeClient["api"];
    return client;
  };

  const proxy = (name: string): ProxyControl => {
    const path = pathOf(name);
    const toxicPath = (toxic: string): string => `${path}/toxics/${encodeURIComponent(toxic)}`;
    const removeToxic: ProxyControl["removeToxic"] = (toxic, options) =>
      change("DELETE", toxicPath(toxic), undefined, options);
    return {
      name,
      apiUrl,
      read: (options) => read(name, options),
      removeToxic,
      updateToxic: (toxic, attributes, options) => change("PATCH", toxicPath(toxic), { attributes }, options),
      addToxic: async (toxic, options) => {
        const wrong = whatIsWrongWith(toxic);
        if (wrong !== null) throw new ToxiproxyError(wrong, null);
        const about = { name, listen: "", upstream: "", enabled: true, toxics: [] };
        await new NodeProxy(clientWith(options), about).addToxic<unknown>({ ...toxic, toxicity: 1 });
        const echo = (await read(name, options)).toxics.find((one) => one.name === toxic.name);
        const difference = echo === undefined ? "the server does not list it" : differenceTo(toxic, echo);
        if (difference === null) return;
        await removeToxic(toxic.name, options).catch(() => {});
        throw new ToxiproxyError(`toxic "${toxic.name}" on proxy "${name}" read back differently: ${difference}`, 200);
      },
      setEnabled: async (enabled, options) => {
        await call("PATCH", path, { enabled }, options);
        const now = await read(name, options);
        if (now.enabled === enabled) return;
        throw new ToxiproxyError(`proxy "${name}": asked for enabled=${enabled}, read back ${now.enabled}`, 200);
      },
    };
  };

  return {
    ...transport,
    apiUrl,
    proxy,
    version: async (options) => {
      const answer = (await call("GET", "/version", undefined, options)) as { version?: unknown } | undefined;
      if (typeof answer?.version === "string") return foreignId(answer.version);
      throw new ToxiproxyError(`${apiUrl}/version has no version in it; is this URL toxiproxy's API?`, 200);
    },
    list: async (options) => {
      const answer = (await call("GET", "/proxies", undefined, options)) as Record<string, unknown>;
      return Object.values(answer).map((one) => stateOf(one, `${apiUrl}/proxies`));
    },
    createProxy: async ({ name, listen, upstream, enabled = true }, options) => {
      pathOf(name);
      await clientWith(options).createProxy({ name, listen, upstream, enabled });
      const state = await read(name, options);
      if (state.upstream === upstream && state.enabled === enabled) return state;
      const asked = `asked for upstream ${upstream}, enabled ${enabled}`;
      throw new ToxiproxyError(`proxy "${name}" read back as ${JSON.stringify(state)}, ${asked}`, 200);
    },
    removeProxy: (name, options) => change("DELETE", pathOf(name), undefined, options),
    reset: async (options) => void (await call("POST", "/reset", undefined, options)),
  };
};

/** For what was held back to be written, and for connections without a client to end: so often so long. */
const LOOKS = 3;
const SETTLE_MS = 50;
const SETTLE_MOST_MS = 750;

/** A slicer waits between two pieces, and a connection without a client is noticed with the next piece or the one after. */
const settleMs = ({ attributes }: Pick<ToxicEcho, "attributes">): number =>
  Math.min(SETTLE_MOST_MS, SETTLE_MS + (1.5 * Number(attributes.delay ?? 0)) / 1_000);

/** The server answers in between: on a busy machine, our elapsed time says nothing about the time that it got. */
const settle = async (proxy: ProxyControl, ms: number, options: CallOptions): Promise<void> => {
  for (let look = 0; look < LOOKS; look += 1) {
    await pause(ms, options.signal);
    await proxy.read(options);
  }
};

/** Whether the proxy is disabled for a moment while this toxic is removed. */
export const disablesWhenRemoved = ({ type }: Pick<ToxicEcho, "type">): boolean =>
  type === "slicer" || type === "bandwidth";

/**
 * Removes a toxic without wedging the server. While toxiproxy removes one that holds data back (latency, slicer,
 * bandwidth) it holds a lock until the client has read that data; a client that gave up never will, and the whole
 * server hangs (its issues 558 and 412). So the data goes first, then the toxic. `isEnabled`: a disabled proxy stays
 * disabled.
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
