/** Inspects a connection before a request is sent: whether it is accepted, the TLS handshake, and the certificate. */
import { lookup } from "node:dns/promises";
import { once } from "node:events";
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { type ConnectionOptions, connect, type TLSSocket } from "node:tls";
import { parseHttpUrl } from "../contract/address.ts";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";
import { tlsFiles } from "./transport.ts";

const WAIT_MS = 5_000;
/** Wait after the handshake: only then does a TLS 1.3 server refuse a client certificate. */
const REFUSAL_MS = { least: 50, most: 500 };
/** Wait for TLS on a port that should speak plain HTTP. */
const GUESS_MS = 500;

/** `distrust`: why the certificate is not trusted. `alpn`: `h2` or `http/1.1`, if negotiated. */
type TlsSeen = Record<"version" | "subject", string> &
  Record<"alpn" | "distrust", string | null> & { endsAtMs: number | null };

export const certificateText = ({ version, subject }: TlsSeen): string => `${version}, certificate of ${subject}`;

type Place = { host: string; port: number };

export const placeOf = (url: string): Place => {
  const { hostname, port, protocol } = new URL(url);
  const usual = protocol === "https:" ? 443 : 80;
  return { host: hostname.replace(/^\[|\]$/g, ""), port: port === "" ? usual : Number(port) };
};

/** Waits for the event: `null` if it came, else the error's code, or `late`. */
const failureOf = async <Late>(socket: Socket, event: string, waitMs: number, late: Late) => {
  try {
    await once(socket, event, { signal: AbortSignal.timeout(Math.ceil(waitMs)) });
    return null;
  } catch (error) {
    const { name, code, message } = error as NodeJS.ErrnoException;
    return name === "AbortError" ? late : (code ?? message);
  }
};

const startTls = ({ host, port }: Place, options: ConnectionOptions = {}): TLSSocket => {
  // Nothing is sent over this connection, so an untrusted server learns nothing.
  const untrusted = { ...options, host, port, rejectUnauthorized: false };
  return connect(isIP(host) === 0 ? { ...untrusted, servername: host } : untrusted);
};

/** Uses a socket and destroys it. Errors that nobody waits for are ignored. */
const withSocket = async <S extends Socket, T>(socket: S, use: (socket: S) => Promise<T>): Promise<T> => {
  socket.on("error", () => undefined);
  return await use(socket).finally(() => socket.destroy());
};

/** Tries a TCP connection: `null` if it is accepted, else the error's code. */
export const lookAtTcp = (place: Place): Promise<string | null> =>
  withSocket(connectTcp(place), (socket) => failureOf(socket, "connect", WAIT_MS, "ETIMEDOUT"));

/** Tries each address that a host's name stands for; none if it is an address itself, or cannot be resolved. */
export const lookAtAddresses = async ({ host, port }: Place) => {
  const found = isIP(host) === 0 ? await lookup(host, { all: true }).catch(() => []) : [];
  return Promise.all(found.map(async (one) => ({ ...one, failed: await lookAtTcp({ host: one.address, port }) })));
};

/** On a port for TLS alone, servers answer plain HTTP with 400, 426, or a redirect to `https`. */
const PLAIN_SERVED = /^HTTP\/1\.[01] (?!3\d\d|400|426)\d{3}/;

/** Whether the port serves plain HTTP as well. Sends one request without a credential. */
export const speaksPlainHttp = (url: string): Promise<boolean> =>
  withSocket(connectTcp(placeOf(url)), async (socket) => {
    const { host, pathname } = new URL(url);
    socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`);
    const failed = await failureOf(socket, "readable", WAIT_MS, "late");
    return failed === null && PLAIN_SERVED.test(String(socket.read()));
  });

export const speaksTls = async (place: Place): Promise<boolean> =>
  (await withSocket(startTls(place), (socket) => failureOf(socket, "secureConnect", GUESS_MS, "late"))) === null;

const handshake = (place: Place, options: ConnectionOptions): Promise<TlsSeen | { error: string }> => {
  const began = performance.now();
  return withSocket(startTls(place, options), async (socket) => {
    const failed = await failureOf(socket, "secureConnect", WAIT_MS, "timeout");
    if (failed !== null) return { error: failed };
    const { subject, valid_to } = socket.getPeerCertificate();
    const endsAtMs = Date.parse(valid_to ?? "");
    const name = subject?.CN;
    const seen = {
      alpn: typeof socket.alpnProtocol === "string" ? socket.alpnProtocol : null,
      version: socket.getProtocol() ?? "TLS",
      distrust: socket.authorized ? null : String(socket.authorizationError ?? "unknown reason"),
      subject: (Array.isArray(name) ? name[0] : name) ?? "no name",
      endsAtMs: Number.isNaN(endsAtMs) ? null : endsAtMs,
    };
    socket.resume();
    const restMs = Math.min(REFUSAL_MS.most, Math.max(REFUSAL_MS.least, performance.now() - began));
    const refused = await failureOf(socket, "close", restMs, null);
    return refused === null ? seen : { error: refused };
  });
};

/** Inspects the handshake; `null` without TLS or through a proxy. Throws if a file of `transport` cannot be read. */
export const lookAtTls = async (target: Target, secrets: Secrets): Promise<TlsSeen | { error: string } | null> => {
  const { base_url, transport = {} } = target;
  if (parseHttpUrl(base_url).scheme !== "https" || typeof transport.proxy === "string") return null;
  const tls = await tlsFiles(transport, secrets);
  const look = (...ALPNProtocols: string[]) => handshake(placeOf(base_url), { ...tls, ALPNProtocols });
  const seen = await look("h2", "http/1.1");
  if ("error" in seen || seen.alpn !== "h2" || transport.protocol === "h2") return seen;
  // The drivers will offer HTTP/1.1 alone, which some gateways refuse.
  const wished = await look("http/1.1");
  return "error" in wished ? wished : seen;
};
