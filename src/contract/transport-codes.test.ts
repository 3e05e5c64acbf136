import { describe, expect, test } from "vitest";
import { transportCode } from "./transport-codes.ts";

describe("why no answer came", () => {
  test.each<[code: string, said: string[]]>([
    ["connection_refused", ["ECONNREFUSED", "dial tcp 127.0.0.1:1: connect: connection refused"]],
    [
      "connection_reset",
      ["ECONNRESET", "EPIPE", "read tcp 127.0.0.1:1: read: connection reset by peer", "write: broken pipe"],
    ],
    [
      "connection_closed",
      [
        ...["UND_ERR_SOCKET", "EOF", "unexpected EOF", "http: server closed idle connection"],
        ...["http2: client connection lost", "http2: server sent GOAWAY and closed the connection; LastStreamID=1"],
      ],
    ],
    ["dns_failed", ["ENOTFOUND", "EAI_AGAIN", "lookup no-such-host.invalid: no such host"]],
    [
      "connect_timeout",
      ["ETIMEDOUT", "net/http: TLS handshake timeout", "UND_ERR_CONNECT_TIMEOUT", "dial tcp 192.0.2.1:80: i/o timeout"],
    ],
    [
      "tls_certificate_expired",
      ["CERT_HAS_EXPIRED", "tls: failed to verify certificate: x509: certificate has expired or is not yet valid"],
    ],
    [
      "tls_wrong_name",
      ["ERR_TLS_CERT_ALTNAME_INVALID", "tls: failed to verify certificate: x509: certificate is valid for a, not b"],
    ],
    [
      "tls_unknown_authority",
      [
        "DEPTH_ZERO_SELF_SIGNED_CERT",
        "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
        "SELF_SIGNED_CERT_IN_CHAIN",
        "x509: certificate signed by unknown authority",
      ],
    ],
    ["tls_refused_us", ["ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED", "ERR_SSL_SSLV3_ALERT_HANDSHAKE_FAILURE"]],
    ["tls_other", ["EPROTO", "ERR_SSL_WRONG_VERSION_NUMBER", "http: server gave HTTP response to HTTPS client"]],
    [
      "protocol_error",
      [
        "HPE_INVALID_CONSTANT",
        "HTTPParserError",
        "net/http: HTTP/1.x transport connection broken: malformed HTTP response",
        "UND_ERR_HEADERS_OVERFLOW",
        "net/http: server response headers exceeded 65536 bytes; aborted",
        "stream error: stream ID 1; PROTOCOL_ERROR; received from peer",
        "invalid byte in chunk length",
      ],
    ],
    ["first_event_timeout", ["first-event-timeout", "timeout: no first event within 15s"]],
    ["idle_timeout", ["idle-timeout", "timeout: no byte came within 20s"]],
    ["call_timeout", ["call-timeout", "timeout: the exchange did not end within 1m0s"]],
    ["too_many_files", ["EMFILE", "socket: too many open files"]],
  ])("%s is one word, whoever says it", (code, said) => {
    expect(said.map(transportCode)).toEqual(said.map(() => code));
    expect(transportCode(code)).toBe(code);
    expect(transportCode(`after the terminal event: ${said[0]}`)).toBe(`after the terminal event: ${code}`);
  });

  test.each<[code: string, said: string[]]>([
    ["call_timeout", ["timeout: the exchange did not end within 1s"]],
    ["idle_timeout", ["timeout: no byte came within 1s"]],
    ["connection_refused", ["dial tcp 127.0.0.1:1: connect: connection refused"]],
    [
      "connection_reset",
      [
        "read: read: connection reset by peer",
        "write: write: broken pipe",
        "read tcp 127.0.0.1:1: software caused connection abort",
      ],
    ],
    ["unreachable", ["dial tcp 127.0.0.1:1: connect: network is unreachable"]],
    ["no_local_port", ["dial tcp 127.0.0.1:1: connect: cannot assign requested address"]],
    ["too_many_files", ["dial tcp 127.0.0.1:1: connect: too many open files"]],
    [
      "dns_failed",
      [
        "dial tcp: lookup maps.example: no such host",
        "timeout: dial tcp: lookup maps.example on 10.0.0.1:53: read udp 10.0.0.2:1->10.0.0.1:53: i/o timeout",
      ],
    ],
    ["connect_timeout", ["timeout: dial tcp: i/o timeout", "net/http: TLS handshake timeout"]],
    ["timeout", ["read: i/o timeout"]],
    [
      "tls_certificate_expired",
      ["tls: failed to verify certificate: x509: certificate has expired or is not yet valid: "],
    ],
    [
      "tls_other",
      [
        "tls: failed to verify certificate: x509: too many intermediates for path length constraint",
        "remote error: tls: protocol version not supported",
        "http: server gave HTTP response to HTTPS client",
        "tls: server selected unsupported protocol version 301",
        'http2: unexpected ALPN protocol ""; want "h2"',
      ],
    ],
    [
      "tls_wrong_name",
      [
        "tls: failed to verify certificate: x509: certificate is not valid for any names, but wanted to match maps.example",
        "tls: failed to verify certificate: x509: certificate relies on legacy Common Name field, use SANs instead",
      ],
    ],
    ["tls_unknown_authority", ["tls: failed to verify certificate: x509: certificate signed by unknown authority"]],
    [
      "tls_refused_us",
      [
        "remote error: tls: certificate required",
        "remote error: tls: unknown certificate authority",
        "remote error: tls: handshake failure",
      ],
    ],
    [
      "connection_closed",
      [
        "EOF",
        "unexpected EOF",
        "http: server closed idle connection",
        "http: persistConn.readLoop exiting",
        "http: unexpected EOF reading trailer",
        "http2: client connection lost",
        "http2: client conn not usable",
        'http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""',
        "http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error",
      ],
    ],
    [
      "protocol_error",
      [
        "stream error: stream ID 1; PROTOCOL_ERROR; received from peer",
        "connection error: FLOW_CONTROL_ERROR",
        'net/http: HTTP/1.x transport connection broken: malformed MIME header: missing colon: "x"',
        "net/http: server response headers exceeded 65536 bytes; aborted",
        "http2: response header list larger than advertised limit",
        'net/http: HTTP/1.x transport connection broken: bad Content-Length "1x"',
        "invalid byte in chunk length",
        'net/http: HTTP/1.x transport connection broken: unsupported transfer encoding: "x"',
        'net/http: HTTP/1.x transport connection broken: malformed HTTP response "what?"',
      ],
    ],
    ["no_memory", ["dial tcp 127.0.0.1:1: connect: cannot allocate memory"]],
  ])("%s, as Go says it", (code, said) => {
    expect(said.map(transportCode)).toEqual(said.map(() => code));
  });

  test("what a server says inside of a message of Go excuses nothing", () => {
    for (const said of ["connection refused", "no such host", "lookup maps.example", "too many open files"]) {
      expect(transportCode(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "${said}"`)).toBe(
        "protocol_error",
      );
    }
  });

  test("what nobody knows is bounded, and never a secret", () => {
    expect(transportCode("ERR_SOMETHING_NEW")).toBe("ERR_SOMETHING_NEW");
    expect(transportCode("it said svc_sk_live_0123456789abcdef")).toMatch(/^other_\d+_[0-9a-f]{4}$/);
  });
});
