/** Codes for why no complete answer came, the same for every driver. */
import { AFTER_TERMINAL, foreignError } from "./foreign-text.ts";
import { NO_LAST_EVENT } from "./streams.ts";

/**
 * The first match decides. Each pattern has the words of Node, undici and OpenSSL first, then those of Go. What excuses the
 * target stands at the end (`$`) in Go's messages, where no text of a server is quoted.
 */
// biome-ignore format: a row is a line
const CODES: readonly (readonly [code: string, said: RegExp])[] = [
  ["connection_refused", /^ECONNREFUSED$|connection refused$/],
  ["connection_reset", /^(?:ECONNRESET|EPIPE|ECONNABORTED)$|connection reset by peer$|broken pipe$|connection abort$/],
  ["dns_failed", /^(?:ENOTFOUND|EAI_\w+|ENODATA|ESERVFAIL)$|no such host$|server misbehaving$|\blookup [^"]*$/],
  ["unreachable", /^(?:EHOSTUNREACH|ENETUNREACH|EHOSTDOWN|ENETDOWN)$|no route to host$|network is unreachable$/],
  ["connect_timeout", /^(?:ETIMEDOUT|UND_ERR_CONNECT_TIMEOUT|connect-timeout)$|dial (?:tcp)?.*timeout$|TLS handshake timeout/],
  ["tls_certificate_expired", /^CERT_(?:HAS_EXPIRED|NOT_YET_VALID)$|certificate has expired/],
  ["tls_wrong_name", /ALTNAME|certificate is (?:valid for|not valid for)|doesn't contain any IP SANs|legacy Common Name/],
  ["tls_unknown_authority", /SELF_SIGNED|UNABLE_TO_(?:VERIFY_LEAF|GET_ISSUER)|CERT_UNTRUSTED|certificate signed by unknown authority/],
  ["tls_refused_us", /^ERR_SSL_.*(?:CERTIFICATE_REQUIRED|BAD_CERTIFICATE|CERTIFICATE_(?:UNKNOWN|EXPIRED|REVOKED)|UNKNOWN_CA|HANDSHAKE_FAILURE)|remote error: tls: (?:handshake failure|(?:bad|unsupported|revoked|expired|unknown) certificate|certificate required)/],
  ["tls_expected", /^tls_expected$/],
  ["tls_other", /^(?:EPROTO|ERR_SSL|ERR_TLS|CERT_)|\btls: |x509: |HTTP response to HTTPS client|ALPN/],
  ["protocol_error", /^(?:HPE_|HTTPParserError|UND_ERR_(?:RES_|HEADERS_OVERFLOW)|ERR_HTTP2)|malformed (?:HTTP|MIME header)|response headers exceeded|header list |(?:stream|connection) error: |bad Content-Length|\bchunk(?:ed)?\b|transfer encoding|header line too long|(?:bad|invalid|long) trailer/],
  ["first_event_timeout", /first[- ]event/],
  ["idle_timeout", /^idle-timeout$|no byte came/],
  ["call_timeout", /^call-timeout$|exchange did not end/],
  ["timeout", /time-?out|i\/o timeout/i],
  [NO_LAST_EVENT, /^no_last_event$/],
  ["connection_closed", /^(?:UND_ERR_SOCKET|EOF)$|\bEOF\b|other side closed|server closed idle|readLoop exiting|client conn|in bad state|GOAWAY/],
  ["no_local_port", /^EADDRNOTAVAIL$|cannot assign requested address$/],
  ["too_many_files", /^E[MN]FILE$|too many open files(?: in system)?$/],
  ["no_memory", /^(?:ENOBUFS|ENOMEM)$|no buffer space available$|cannot allocate memory$/],
];

const WORDS = new Set(CODES.map(([code]) => code));

/** Codes of a load generator that had no port, file or memory left for a connection. */
export const CODES_OF_THE_GENERATOR: ReadonlySet<string> = new Set(["no_local_port", "too_many_files", "no_memory"]);

/** The code of a transport's error. Codes stay as they are; unknown texts are bounded as foreign text. */
export const transportCode = (said: string): string => {
  if (said.startsWith(AFTER_TERMINAL)) return AFTER_TERMINAL + transportCode(said.slice(AFTER_TERMINAL.length));
  if (WORDS.has(said)) return said;
  return CODES.find(([, pattern]) => pattern.test(said))?.[0] ?? foreignError(said);
};
