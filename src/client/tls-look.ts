/** Inspects a connection before a request is sent: whether it is accepted, the TLS handshake, and the certificate. */
import { connect as connectTcp, isIP, type Socket } from "node:net";
import { type ConnectionOptions, connect } from "node:tls";
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

const codeOf = (error: NodeJS.ErrnoException): string => error.code ?? error.message;

/** Settles once, at the latest at the deadline, and destroys the socket. */
const within = <T>(socket: Socket, waitMs: number, late: T, begin: (settle: (found: T) => void) => void): Promise<T> =>
  new Promise((resolve) => {
    const settle = (found: T): void => {
      clearTimeout(timer);
      resolve(found);
      socket.destroy();
    };
    const timer = setTimeout(() => settle(late), waitMs);
    begin(settle);
  });

/** Tries a TCP connection: `null` if it is accepted, else the error's code. */
export const lookAtTcp = ({ host, port }: Place): Promise<string | null> => {
  const socket = connectTcp({ host, port });
  return within<string | null>(socket, WAIT_MS, "ETIMEDOUT", (settle) => {
    socket.once("connect", () => settle(null));
    socket.on("error", (error) => settle(codeOf(error)));
  });
};

/** Reports whether a TLS server listens at a place. Sends no request. */
export const speaksTls = ({ host, port }: Place): Promise<boolean> => {
  const socket = connect({ host, port, rejectUnauthorized: false, ...(isIP(host) === 0 ? { servername: host } : {}) });
  return within<boolean>(socket, GUESS_MS, false, (settle) => {
    socket.once("secureConnect", () => settle(true));
    socket.on("error", () => settle(false));
  });
};

/** Inspects the handshake; `null` without TLS or through a proxy. Throws if a file of `transport` cannot be read. */
export const lookAtTls = async (target: Target, secrets: Secrets): Promise<TlsSeen | { error: string } | null> => {
  const { scheme } = parseHttpUrl(target.base_url);
  if (scheme !== "https" || typeof target.transport?.proxy === "string") return null;
  const { host, port } = placeOf(target.base_url);
  const options: ConnectionOptions = {
    ...(await tlsFiles(target.transport ?? {}, secrets)),
    host,
    port,
    ALPNProtocols: ["h2", "http/1.1"],
    ...(isIP(host) === 0 ? { servername: host } : {}),
    // Nothing is sent over this connection.
    rejectUnauthorized: false,
  };
  const began = performance.now();
  const socket = connect(options);
  return await within<TlsSeen | { error: string }>(socket, WAIT_MS, { error: "timeout" }, (settle) => {
    socket.on("error", (error: NodeJS.ErrnoException) => settle({ error: codeOf(error) }));
    socket.once("secureConnect", () => {
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
      const tookMs = performance.now() - began;
      setTimeout(() => settle(seen), Math.min(REFUSAL_MS.most, Math.max(REFUSAL_MS.least, tookMs)));
    });
  });
};
