/** Connects to a deployment by its target file; tells new connections, negotiated protocols and kinds of errors. */
import { subscribe } from "node:diagnostics_channel";
import { createSecureContext } from "node:tls";
import { Agent, type buildConnector, type Dispatcher, ProxyAgent } from "undici";
import type { Protocol } from "../history/run-document.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target, Transport } from "../target/target.ts";

/** High enough that calls do not wait for a connection. */
const CONNECTIONS_DEFAULT = 2048;
const CONNECT_TIMEOUT_MS = 5_000;

/** Our bound on concurrent streams of one HTTP/2 connection. A server may allow fewer. */
const STREAMS_PER_CONNECTION = 100;

/** The most calls in flight before one waits for a connection. HTTP/2 is negotiated over TLS only. */
export const inFlightMax = ({ transport, base_url }: Pick<Target, "transport" | "base_url">): number => {
  const connections = transport?.connections ?? CONNECTIONS_DEFAULT;
  const shared = transport?.protocol === "h2" && base_url.startsWith("https:");
  return shared ? connections * STREAMS_PER_CONNECTION : connections;
};

type TlsFiles = Partial<Record<"ca" | "cert" | "key", string>>;

/** Reads the certificates and key of `transport`. Throws `SecretError`. */
export const tlsFiles = async (transport: Transport, secrets: Secrets): Promise<TlsFiles> => {
  const files: TlsFiles = {};
  for (const name of ["ca", "cert", "key"] as const) {
    const ref = transport[name];
    if (typeof ref === "string") files[name] = await secrets.read(ref, `transport.${name}`);
  }
  return files;
};

/** Names a file with the wrong content; `null` if all are right. */
export const wrongTlsFile = ({ ca, cert, key }: TlsFiles): string | null => {
  const fits = (what: Parameters<typeof createSecureContext>[0]): boolean => {
    try {
      createSecureContext(what);
      return true;
    } catch {
      return false;
    }
  };
  for (const [name, pem] of Object.entries({ ca, cert })) {
    // A text without certificates is accepted as an empty list.
    if (pem !== undefined && !(/-----BEGIN (?:TRUSTED |X509 )?CERTIFICATE-----/.test(pem) && fits({ [name]: pem })))
      return `transport.${name}: expected a certificate in PEM`;
  }
  if (key !== undefined && !fits({ key })) return "transport.key: expected a private key in PEM without a passphrase";
  if ((cert === undefined) !== (key === undefined)) return "transport.cert and transport.key belong together";
  if (cert !== undefined && key !== undefined && !fits({ cert, key }))
    return "transport.key: expected the private key of the certificate in transport.cert";
  return null;
};

/** `connect` replaces TCP and TLS connections. */
export const openTransport = async (transport: Transport, secrets: Secrets, connect?: buildConnector.connector) => {
  /** Headers of every request, with names in lower case. */
  const headers: Record<string, string> = {};
  for (const [name, ref] of Object.entries(transport.headers ?? {})) {
    headers[name.toLowerCase()] = await secrets.read(ref, `transport.headers.${name}`);
  }
  const connections = transport.connections ?? CONNECTIONS_DEFAULT;
  const h2 = transport.protocol === "h2";
  // `send-request.ts` has its own timeouts, which say what did not come.
  const options = { connections, allowH2: h2, headersTimeout: 0, bodyTimeout: 0, ...(h2 ? {} : { pipelining: 1 }) };
  const tls = await tlsFiles(transport, secrets);
  const { proxy } = transport;
  const dispatcher: Dispatcher =
    typeof proxy === "string"
      ? new ProxyAgent({ ...options, uri: await secrets.read(proxy, "transport.proxy"), requestTls: tls })
      : new Agent({ ...options, connect: connect ?? { ...tls, timeout: CONNECT_TIMEOUT_MS } });
  return { dispatcher, headers, connections, close: () => dispatcher.destroy() };
};

/**
 * Whether the connection is new. undici reports a connection and writes the request that caused it in the same turn of
 * the event loop; requests at other times use an older connection. This also holds through a proxy.
 */
let isFresh = false;

const agreed = new Map<string, Set<Protocol>>();

type Parser = { onHeadersComplete(status: number, upgrade: boolean, keepsAlive: boolean): number };
type ConnectedSocket = { alpnProtocol?: string | false | null; [symbol: symbol]: Parser | undefined };

/**
 * Skips an unasked `100 Continue`. Any server may send one (RFC 9110, section 15.2), and undici closes the connection at
 * 100, but not at other interim answers; so its parser is told 102.
 */
const skipContinue = (socket: ConnectedSocket): void => {
  const symbol = Object.getOwnPropertySymbols(socket).find(({ description }) => description === "parser");
  const parser = symbol === undefined ? undefined : socket[symbol];
  if (parser === undefined) return;
  const onHeadersComplete = parser.onHeadersComplete.bind(parser);
  parser.onHeadersComplete = (status, upgrade, keepsAlive) =>
    onHeadersComplete(status === 100 ? 102 : status, upgrade, keepsAlive);
};

subscribe("undici:client:connected", (message) => {
  const { socket, connectParams } = message as { socket?: ConnectedSocket; connectParams: { host: string } };
  if (socket !== undefined) skipContinue(socket);
  const { host } = connectParams;
  agreed.set(host, (agreed.get(host) ?? new Set<Protocol>()).add(socket?.alpnProtocol === "h2" ? "h2" : "h1"));
  isFresh = true;
  queueMicrotask(() => {
    isFresh = false;
  });
});

/** Called when a request is about to be written. True once per connection. */
export const isFirstOnConnection = (): boolean => {
  const was = isFresh;
  isFresh = false;
  return was;
};

/** HTTP versions that connections to the address negotiated since the last call. */
export const takeProtocols = (baseUrl: string): Protocol[] => {
  const { host } = new URL(baseUrl);
  const taken = [...(agreed.get(host) ?? [])].sort();
  agreed.delete(host);
  return taken;
};

const CUT_SHORT = new Set([
  "UND_ERR_SOCKET",
  "UND_ERR_RES_CONTENT_LENGTH_MISMATCH",
  "UND_ERR_RES_EXCEEDED_MAX_SIZE",
  // The connection ended within a chunk.
  "HTTPParserError",
]);

/** FIN within the body: `truncated`. Before the head, or RST: `reset`. */
export const endOf = (code: string, hadHead: boolean) => (hadHead && CUT_SHORT.has(code) ? "truncated" : "reset");

export const codeOf = (error: Error): string =>
  (error as NodeJS.ErrnoException).code ?? (error.cause as NodeJS.ErrnoException | undefined)?.code ?? error.name;

/** Reports the errors of connections that this client closed itself, at the end of a stage. */
export const isOurs = (code: string): boolean => code === "UND_ERR_DESTROYED" || code === "UND_ERR_CLOSED";
