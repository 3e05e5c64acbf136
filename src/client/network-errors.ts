/** What an error of the transport means to somebody who wrote an address into a target file, and what to do; said alike by all commands. */

const ADVICE: readonly { code: RegExp; means: string; todo: string }[] = [
  {
    code: /^ECONNREFUSED$/,
    means: "nobody listens at that address",
    todo: "start the deployment, or mend the port in base_url",
  },
  { code: /^(ENOTFOUND|EAI_AGAIN)$/, means: "the name of the host is not known", todo: "mend the host in base_url" },
  {
    code: /^(UND_ERR_CONNECT_TIMEOUT|ETIMEDOUT|EHOSTUNREACH|ENETUNREACH)$/,
    means: "no connection came about",
    todo: "is a firewall or a VPN between, or is the address wrong?",
  },
  {
    code: /^ERR_SSL_.*(CERTIFICATE_REQUIRED|BAD_CERTIFICATE|CERTIFICATE_(UNKNOWN|EXPIRED|REVOKED)|UNKNOWN_CA|HANDSHAKE_FAILURE)/,
    means: "it refuses our side of the handshake, as one does that asks for a certificate of its clients",
    todo: 'name one that it accepts: "transport": { "cert": "file:client.pem", "key": "file:client-key.pem" }',
  },
  { code: /^speaks-tls$/, means: "it speaks TLS, and the file says http://", todo: "write https:// in base_url" },
  {
    code: /SELF_SIGNED|UNABLE_TO|DEPTH_ZERO|CERT_UNTRUSTED/,
    means: "its certificate is signed by an authority that this machine does not know",
    todo: 'name the authority: "transport": { "ca": "file:ca.pem" }',
  },
  { code: /CERT_HAS_EXPIRED/, means: "its certificate has expired", todo: "have the certificate renewed" },
  {
    code: /ALTNAME/,
    means: "its certificate is for another host name",
    todo: "write the name that the certificate has",
  },
  {
    code: /^(EPROTO|ERR_SSL|HPE_|HTTPParserError|UND_ERR_SOCKET|ECONNRESET)/,
    means: "what answers does not speak that protocol, or hangs up",
    todo: "is it https:// where the file says http://, or the other way round?",
  },
  {
    code: /timeout$/,
    means: "it took the connection and said nothing in time",
    todo: "is the deployment busy or stuck?",
  },
];

export const networkAdvice = (code: string): { means: string; todo: string } =>
  ADVICE.find((advice) => advice.code.test(code)) ?? {
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
