/** One TLS handshake, without a request: what the deployment offers, and whose certificate it shows. */
import { isIP } from "node:net";
import { connect } from "node:tls";
import type { Secrets } from "../target/secrets.ts";
import type { Target } from "../target/target.ts";

const WAIT_MS = 5_000;

type TlsSeen = {
  /** `h2` or `http/1.1`; `null` where the deployment does not negotiate. */
  alpn: string | null;
  /** Such as `TLSv1.3`. */
  version: string;
  /** Why the certificate is not trusted, `null` where it is. */
  distrust: string | null;
  subject: string;
  endsAtMs: number | null;
};

/** `null` for a deployment that is not reached by TLS, or through a proxy. Throws what reading a certificate throws. */
export const lookAtTls = async (target: Target, secrets: Secrets): Promise<TlsSeen | { error: string } | null> => {
  const url = new URL(target.base_url);
  const { ca, cert, key, proxy } = target.transport ?? {};
  if (url.protocol !== "https:" || typeof proxy === "string") return null;
  const read = async (ref: string | null | undefined, name: string) =>
    typeof ref === "string" ? { [name]: await secrets.read(ref, `transport.${name}`) } : {};
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const options = {
    ...(await read(ca, "ca")),
    ...(await read(cert, "cert")),
    ...(await read(key, "key")),
    host,
    port: url.port === "" ? 443 : Number(url.port),
    ALPNProtocols: ["h2", "http/1.1"],
    ...(isIP(host) === 0 ? { servername: host } : {}),
    // Only looked at: nothing is sent over this connection.
    rejectUnauthorized: false,
  };
  return await new Promise((resolve) => {
    const socket = connect(options);
    socket.setTimeout(WAIT_MS, () => socket.destroy(new Error("timeout")));
    socket.on("error", (error: NodeJS.ErrnoException) => resolve({ error: error.code ?? error.message }));
    socket.on("secureConnect", () => {
      const { subject, valid_to } = socket.getPeerCertificate();
      const endsAtMs = Date.parse(valid_to ?? "");
      const name = subject?.CN;
      resolve({
        alpn: typeof socket.alpnProtocol === "string" ? socket.alpnProtocol : null,
        version: socket.getProtocol() ?? "TLS",
        distrust: socket.authorized ? null : String(socket.authorizationError ?? "unknown reason"),
        subject: (Array.isArray(name) ? name[0] : name) ?? "no name",
        endsAtMs: Number.isNaN(endsAtMs) ? null : endsAtMs,
      });
      socket.destroy();
    });
  });
};
