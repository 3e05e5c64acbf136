/** Connections to a deployment, as its target file wants them: certificates, proxy, HTTP version, how many. */
import { Agent, type buildConnector, type Dispatcher, ProxyAgent } from "undici";
import type { Secrets } from "../target/secrets.ts";
import type { Target, Transport } from "../target/target.ts";

/** Enough that calls do not wait for a connection unless the target file bounds them. */
const CONNECTIONS_DEFAULT = 2048;
const CONNECT_TIMEOUT_MS = 5_000;

/** What one HTTP/2 connection carries side by side: the client's own bound. A server may allow fewer. */
const STREAMS_PER_CONNECTION = 100;

/** How many calls can be under way at once; one more waits for a connection of ours. HTTP/2 is agreed upon over TLS only. */
export const inFlightMax = ({ transport, base_url }: Pick<Target, "transport" | "base_url">): number => {
  const connections = transport?.connections ?? CONNECTIONS_DEFAULT;
  const shared = transport?.protocol === "h2" && base_url.startsWith("https:");
  return shared ? connections * STREAMS_PER_CONNECTION : connections;
};

type OpenTransport = {
  dispatcher: Dispatcher;
  /** Names in lower case; sent with every call. */
  headers: Readonly<Record<string, string>>;
  connections: number;
  close(): Promise<void>;
};

/** `connect`: how connections are made, in place of TCP and TLS. */
export const openTransport = async (
  transport: Transport,
  secrets: Secrets,
  connect?: buildConnector.connector,
): Promise<OpenTransport> => {
  const optional = async (ref: string | null | undefined, what: string): Promise<string | undefined> =>
    ref === undefined || ref === null ? undefined : secrets.read(ref, `transport.${what}`);
  const tls: { ca?: string; cert?: string; key?: string } = {};
  for (const part of ["ca", "cert", "key"] as const) {
    const pem = await optional(transport[part], part);
    if (pem !== undefined) tls[part] = pem;
  }
  const headers: Record<string, string> = {};
  for (const [name, ref] of Object.entries(transport.headers ?? {})) {
    headers[name.toLowerCase()] = await secrets.read(ref, `transport.headers.${name}`);
  }
  const connections = transport.connections ?? CONNECTIONS_DEFAULT;
  const h2 = transport.protocol === "h2";
  // Time-outs are ours (`send-request.ts`): they name what did not come, and fire on time.
  const options = {
    connections,
    allowH2: h2,
    headersTimeout: 0,
    bodyTimeout: 0,
    ...(h2 ? {} : { pipelining: 1 }),
  };
  const proxy = await optional(transport.proxy, "proxy");
  const dispatcher =
    proxy === undefined
      ? new Agent({ ...options, connect: connect ?? { ...tls, timeout: CONNECT_TIMEOUT_MS } })
      : new ProxyAgent({ ...options, uri: proxy, requestTls: tls });
  return { dispatcher, headers, connections, close: () => dispatcher.destroy() };
};
