/** Explains a transport error to the author of a target file: what it means and what to do. For all commands. */
import { transportCode } from "../contract/transport-codes.ts";

type Advice = readonly [means: string, todo: string, withoutFile?: string];

// biome-ignore format: a row is a line
const OTHER_PROTOCOL: Advice = ["the server speaks another protocol, or closes the connection", "is it https:// where the file says http://, or the other way round?"];
const HTTP2_ALONE: Advice = [
  "it speaks HTTP/2 alone, and transport.protocol does not say h2",
  'write "transport": { "protocol": "h2" }',
];
// biome-ignore format: a row is a line
const OLDER_TLS: Advice = ["it speaks an older TLS alone, and calls are sent by TLS 1.2 or 1.3", "turn TLS 1.2 or 1.3 on at the server, or at the gateway in front of it"];
// biome-ignore format: a row is a line
const SILENT: Advice = ["it accepted the connection and sent no answer in time", "is the deployment busy or stuck?"];

/** Advice by a code of OpenSSL that says more than the code that all drivers share. */
// biome-ignore format: a row is a line
const CLOSER_ADVICE: Readonly<Record<string, Advice>> = {
  ERR_SSL_TLSV1_ALERT_NO_APPLICATION_PROTOCOL: HTTP2_ALONE,
  ERR_SSL_NO_APPLICATION_PROTOCOL: HTTP2_ALONE,
  ERR_SSL_TLSV1_ALERT_PROTOCOL_VERSION: OLDER_TLS,
  ERR_SSL_UNSUPPORTED_PROTOCOL: OLDER_TLS,
  ERR_SSL_TLSV1_UNRECOGNIZED_NAME: ["it has no server of the host name in base_url", "write the host name under which the gateway serves the API"],
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: ["its certificate is signed by an authority that this machine does not know, or it leaves out the intermediate certificate", 'name the authority: "transport": { "ca": "file:ca.pem" }; if that is named already, let the server send its whole chain', "name the authority: --ca FILE; if that is named already, let the server send its whole chain"],
};

/** Advice by code of contract/transport-codes.ts. `withoutFile`: advice if there is no target file yet. */
// biome-ignore format: a row is a line
const ADVICE: Readonly<Record<string, Advice>> = {
  connection_refused: ["nothing listens at that address", "start the deployment, or correct the port in base_url", "start the deployment, or correct the port after --target"],
  dns_failed: ["the host name cannot be resolved", "correct the host in base_url", "correct the host after --target"],
  unreachable: ["no connection could be made", "does a firewall or a VPN block it, or is the address wrong?"],
  connect_timeout: ["no connection could be made in time", "does a firewall or a VPN block it, is the address wrong, or is it http:// where https:// is written?"],
  tls_refused_us: ["it refuses our side of the TLS handshake: it probably requires a client certificate", 'name one that it accepts: "transport": { "cert": "file:client.pem", "key": "file:client-key.pem" }'],
  tls_expected: ["it speaks TLS, but the file says http://", "write https:// in base_url", "write https:// after --target"],
  tls_unknown_authority: ["its certificate is signed by an authority that this machine does not know", 'name the authority: "transport": { "ca": "file:ca.pem" }', "name the authority: --ca FILE"],
  tls_certificate_expired: ["its certificate has expired", "have the certificate renewed"],
  tls_wrong_name: ["its certificate is for another host name", "write the name that the certificate has"],
  tls_other: OTHER_PROTOCOL,
  protocol_error: OTHER_PROTOCOL,
  connection_closed: OTHER_PROTOCOL,
  connection_reset: OTHER_PROTOCOL,
  first_event_timeout: SILENT,
  idle_timeout: SILENT,
  call_timeout: SILENT,
  timeout: SILENT,
};
const OTHERWISE: Advice = ["the connection broke off", "is it running, and is the address right?"];

const PROXY_VARIABLES = ["HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"];
/** Codes of a network that lets nobody out but its proxy. */
const SHUT_IN = new Set(["dns_failed", "unreachable", "connect_timeout"]);

/** No driver uses the environment's proxy by itself, so that all of them take the same way. */
const unusedProxy = (code: string): string => {
  const name = SHUT_IN.has(code) ? PROXY_VARIABLES.find((one) => (process.env[one] ?? "") !== "") : undefined;
  return name === undefined
    ? ""
    : `; ${name} names a proxy here, which is used only if the target file says so: "transport": { "proxy": "env:${name}" }`;
};

export const networkAdvice = (said: string): { means: string; todo: string; withoutFile: string } => {
  const code = transportCode(said);
  const [means, todo, withoutFile = todo] = CLOSER_ADVICE[said] ?? ADVICE[code] ?? OTHERWISE;
  const proxy = unusedProxy(code);
  return { means, todo: todo + proxy, withoutFile: withoutFile + proxy };
};

/** `text`: what was found, its code, and what the code means. `todo`: what to do. */
export const toldOf = (found: string, code: string): { text: string; todo: string } => {
  const { means, todo } = networkAdvice(code);
  return { text: `${found} (${code}): ${means}`, todo };
};
