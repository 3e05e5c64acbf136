/**
 * Control of a toxiproxy server. Creating and removing go through the npm client, with its transport exchanged for ours
 * (deadlines, status and server message in errors); listing and reading back, which it has not, are here. Nothing is
 * believed because the server said 200: every change is read back and compared.
 */

import { Toxiproxy as NodeClient, Proxy as NodeProxy, Toxic as NodeToxic } from "toxiproxy-node-client";
import { foreignId } from "../contract/foreign-text.ts";
import { differenceTo, type Toxic, type ToxicEcho, whatIsWrongWith } from "./toxics.ts";
import { type CallOptions, openTransport, ToxiproxyError } from "./toxiproxy-transport.ts";

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
  /** Removing a toxic that is not there is not an error. See take-toxic-away.ts for one that holds data back. */
  removeToxic: (name: string, options?: CallOptions) => Promise<void>;
  /** `false` closes the listener and every connection; read back. */
  setEnabled: (enabled: boolean, options?: CallOptions) => Promise<void>;
};

export type Toxiproxy = {
  readonly apiUrl: string;
  version: (options?: CallOptions) => Promise<string>;
  list: (options?: CallOptions) => Promise<ProxyState[]>;
  /** `listen` with port 0 lets the OS choose; the answer has the real one. */
  createProxy: (
    proxy: { name: string; listen: string; upstream: string; enabled?: boolean },
    options?: CallOptions,
  ) => Promise<ProxyState>;
  removeProxy: (name: string, options?: CallOptions) => Promise<void>;
  /** Enables every proxy and drops all toxics of the whole server. */
  reset: (options?: CallOptions) => Promise<void>;
  proxy: (name: string) => ProxyControl;
  /** As the transport has them: changes that may still be carried out. */
  underWay: () => number;
  settled: (signal: AbortSignal) => Promise<void>;
  close: () => Promise<void>;
};

const NAME = /^[A-Za-z0-9_.-]+$/;

const checkedName = (name: string): string => {
  // The npm client puts names into paths as they are.
  if (!NAME.test(name)) throw new Error(`a proxy's name is letters, digits, "_", "." and "-", not "${name}"`);
  return name;
};

const stateOf = (answer: unknown, from: string): ProxyState => {
  const state = answer as Partial<ProxyState> | undefined;
  if (typeof state?.name !== "string" || typeof state.enabled !== "boolean")
    throw new ToxiproxyError(`${from} answered something that is not a proxy; is this URL toxiproxy's API?`, 200, null);
  return { ...(state as ProxyState), toxics: state.toxics ?? [] };
};

const ignoring404 = (error: unknown): void => {
  if (!(error instanceof ToxiproxyError && error.status === 404)) throw error;
};

export const openToxiproxy = (apiUrl: string, defaults: CallOptions = {}): Toxiproxy => {
  const transport = openTransport(apiUrl, defaults);

  /** The npm client, talking through our transport. Its paths are whole URLs, ours begin at the root. */
  const clientWith = (options: CallOptions | undefined): NodeClient => {
    const client = new NodeClient("");
    const api = {
      get: async (path: string) => ({ data: await transport.call("GET", path, undefined, options) }),
      // It updates by POST, which the server calls deprecated; creation is the only POST left to it here.
      post: async (path: string, body?: unknown) => ({ data: await transport.call("POST", path, body, options) }),
      delete: async (path: string) => void (await transport.call("DELETE", path, undefined, options)),
    };
    client.api = api as unknown as NodeClient["api"];
    return client;
  };
  const readProxy = async (name: string, options?: CallOptions): Promise<ProxyState> =>
    stateOf(await transport.call("GET", `/proxies/${checkedName(name)}`, undefined, options), apiUrl);
  const handle = (name: string, options?: CallOptions): NodeProxy =>
    new NodeProxy(clientWith(options), {
      name: checkedName(name),
      listen: "",
      upstream: "",
      enabled: true,
      toxics: [],
    });

  const proxy = (name: string): ProxyControl => {
    const removeToxic = async (toxic: string, options?: CallOptions): Promise<void> => {
      const body = { name: toxic, stream: "downstream", type: "latency", toxicity: 1, attributes: {} } as const;
      const it = new NodeToxic(clientWith(options).api, `/proxies/${checkedName(name)}`, body);
      await it.remove().catch(ignoring404);
    };
    return {
      name: checkedName(name),
      apiUrl,
      read: (options) => readProxy(name, options),
      removeToxic,
      updateToxic: async (toxic, attributes, options) => {
        const path = `/proxies/${checkedName(name)}/toxics/${checkedName(toxic)}`;
        await transport.call("PATCH", path, { attributes }, options).catch(ignoring404);
      },
      addToxic: async (toxic, options) => {
        const wrong = whatIsWrongWith(toxic);
        if (wrong !== null) throw new ToxiproxyError(wrong, null, null);
        await handle(name, options).addToxic<unknown>({ ...toxic, toxicity: 1 });
        const echo = (await readProxy(name, options)).toxics.find((one) => one.name === toxic.name);
        const difference = echo === undefined ? "the server does not list it" : differenceTo(toxic, echo);
        if (difference === null) return;
        await removeToxic(toxic.name, options).catch(() => {});
        throw new ToxiproxyError(
          `toxic "${toxic.name}" on proxy "${name}" read back differently: ${difference}`,
          200,
          null,
        );
      },
      setEnabled: async (enabled, options) => {
        await transport.call("PATCH", `/proxies/${checkedName(name)}`, { enabled }, options);
        const now = await readProxy(name, options);
        if (now.enabled !== enabled)
          throw new ToxiproxyError(
            `proxy "${name}": asked for enabled=${enabled}, read back ${now.enabled}`,
            200,
            null,
          );
      },
    };
  };

  return {
    apiUrl,
    proxy,
    version: async (options) => {
      const answer = await transport.call("GET", "/version", undefined, options);
      const version = (answer as { version?: unknown } | undefined)?.version;
      if (typeof version === "string") return foreignId(version);
      throw new ToxiproxyError(`${apiUrl}/version has no version in it; is this URL toxiproxy's API?`, 200, null);
    },
    list: async (options) => {
      const answer = (await transport.call("GET", "/proxies", undefined, options)) as Record<string, unknown>;
      return Object.values(answer).map((one) => stateOf(one, `${apiUrl}/proxies`));
    },
    createProxy: async ({ name, listen, upstream, enabled = true }, options) => {
      await clientWith(options).createProxy({ name: checkedName(name), listen, upstream, enabled });
      const state = await readProxy(name, options);
      if (state.upstream !== upstream || state.enabled !== enabled)
        throw new ToxiproxyError(
          `proxy "${name}" read back as ${JSON.stringify(state)}, asked for upstream ${upstream}, enabled ${enabled}`,
          200,
          null,
        );
      return state;
    },
    removeProxy: (name, options) => handle(name, options).remove().catch(ignoring404),
    reset: async (options) => void (await transport.call("POST", "/reset", undefined, options)),
    underWay: () => transport.underWay(),
    settled: (signal) => transport.settled(signal),
    close: () => transport.close(),
  };
};
