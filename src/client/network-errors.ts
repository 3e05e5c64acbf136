/**
 * What an error of the transport means to somebody who wrote an address into a target file, and what to do; said alike by all
 * commands.
 */
import { transportCode } from "../contract/transport-codes.ts";

type Advice = { means: string; todo: string };

const NOBODY: Advice = {
  means: "no connection came about",
  todo: "is a firewall or a VPN between, or is the address wrong?",
};
const OTHER_PROTOCOL: Advice = {
  means: "what answers does not speak that protocol, or hangs up",
  todo: "is it https:// where the file says http://, or the other way round?",
};
const SILENT: Advice = {
  means: "it took the connection and said nothing in time",
  todo: "is the deployment busy or stuck?",
};

/** By the codes of contract/transport-codes.ts. */
const ADVICE: Readonly<Record<string, Advice>> = {
  connection_refused: {
    means: "nobody listens at that address",
    todo: "start the deployment, or mend the port in base_url",
  },
  dns_failed: { means: "the name of the host is not known", todo: "mend the host in base_url" },
  unreachable: NOBODY,
  connect_timeout: NOBODY,
  tls_refused_us: {
    means: "it refuses our side of the handshake, as one does that asks for a certificate of its clients",
    todo: 'name one that it accepts: "transport": { "cert": "file:client.pem", "key": "file:client-key.pem" }',
  },
  tls_expected: { means: "it speaks TLS, and the file says http://", todo: "write https:// in base_url" },
  tls_unknown_authority: {
    means: "its certificate is signed by an authority that this machine does not know",
    todo: 'name the authority: "transport": { "ca": "file:ca.pem" }',
  },
  tls_certificate_expired: { means: "its certificate has expired", todo: "have the certificate renewed" },
  tls_wrong_name: {
    means: "its certificate is for another host name",
    todo: "write the name that the certificate has",
  },
  tls_other: OTHER_PROTOCOL,
  protocol_error: OTHER_PROTOCOL,
  connection_closed: OTHER_PROTOCOL,
  connection_reset: OTHER_PROTOCOL,
  first_event_timeout: SILENT,
  idle_timeout: SILENT,
  call_timeout: SILENT,
  timeout: SILENT,
};

export const networkAdvice = (code: string): Advice =>
  ADVICE[transportCode(code)] ?? {
    means: "the exchange broke off",
    todo: "is it running, and is the address right?",
  };

/** Of an address that gives no answer at all. */
export const notAnswering = (url: string, code: string): { text: string; todo: string } => {
  const { means, todo } = networkAdvice(code);
  return { text: `${url} does not answer (${code}): ${means}`, todo };
};

/** Of a handshake that did not come about. */
export const noHandshake = (code: string): { text: string; todo: string } => {
  const { means, todo } = networkAdvice(code);
  return { text: `the handshake failed (${code}): ${means}`, todo };
};

/** Of a certificate, which `seen` describes. */
export const notTrusted = (seen: string, code: string): { text: string; todo: string } => {
  const { means, todo } = networkAdvice(code);
  return { text: `${seen}; not trusted (${code}): ${means}`, todo };
};
