package sse

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// refusesUs are the alerts (RFC 8446, 6.2) of a server that does not accept our side of a handshake.
var refusesUs = map[tls.AlertError]bool{40: true, 42: true, 43: true, 44: true, 45: true, 46: true, 48: true, 116: true}

var codeOfErrno = map[syscall.Errno]string{
	syscall.ECONNREFUSED:  "connection_refused",
	syscall.ECONNRESET:    "connection_reset",
	syscall.ECONNABORTED:  "connection_reset",
	syscall.EPIPE:         "connection_reset",
	syscall.EHOSTUNREACH:  "unreachable",
	syscall.ENETUNREACH:   "unreachable",
	syscall.EADDRNOTAVAIL: "no_local_port",
	syscall.EMFILE:        "too_many_files",
	syscall.ENFILE:        "too_many_files",
	syscall.ENOBUFS:       "no_memory",
	syscall.ENOMEM:        "no_memory",
}

// transportCode says why no whole answer came in the words of src/contract/transport-codes.ts, which every driver uses; "" where it has
// none for it.
func transportCode(err error) string {
	var (
		timeout   *timeoutError
		dns       *net.DNSError
		expired   x509.CertificateInvalidError
		name      x509.HostnameError
		authority x509.UnknownAuthorityError
		verified  *tls.CertificateVerificationError
		record    tls.RecordHeaderError
		alert     tls.AlertError
		errno     syscall.Errno
		network   net.Error
	)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errNoLastEvent):
		return errNoLastEvent.Error()
	case errors.As(err, &timeout):
		return timeout.code
	case errors.As(err, &dns):
		return "dns_failed"
	case errors.As(err, &expired) && expired.Reason == x509.Expired: // also: not yet valid
		return "tls_certificate_expired"
	case errors.As(err, &name):
		return "tls_wrong_name"
	case errors.As(err, &authority):
		return "tls_unknown_authority"
	case errors.As(err, &alert) && refusesUs[alert]:
		return "tls_refused_us"
	case errors.As(err, &verified), errors.As(err, &record), errors.As(err, &alert), errors.Is(err, http.ErrSchemeMismatch):
		return "tls_other"
	case errors.As(err, &errno) && codeOfErrno[errno] != "":
		return codeOfErrno[errno]
	case errors.As(err, &network) && network.Timeout():
		var operation *net.OpError
		if errors.As(err, &operation) && operation.Op == "dial" {
			return "connect_timeout"
		}
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection_closed"
	case strings.Contains(err.Error(), "malformed HTTP"): // net/http has no type for it
		return "protocol_error"
	}
	return ""
}
