package sse

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"
)

// end says how an exchange ended. There are these nine and every exchange has exactly one.
type end string

const (
	endDone       end = "done"             // an event of terminal.done came
	endErrorEvent end = "error_event"      // an event of terminal.error came
	endEOF        end = "eof"              // the body ended as its framing says, without a terminal event
	endTruncated  end = "truncated"        // the body stopped before its framing says it ends, or without the last event that is required
	endReset      end = "reset"            // no connection, or it broke; status is 0 when that was before the head of the answer
	endTimeout    end = "timeout"          // one of the three time-outs, or the connection took too long to make
	endRefused    end = "refused"          // a whole answer that is no event stream
	endClosed     end = "closed_by_client" // close(), a handler that threw, an interrupted iteration, an event over the bound
	endNotSent    end = "not_sent"         // the budget did not let it leave, or the test ended while it waited for its turn
)

// timeoutError is the cause given to the context that a time-out cancels.
type timeoutError struct {
	what  string
	limit time.Duration
	code  string // of transportCode
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("timeout: %s within %s", e.what, e.limit)
}

// errGraceOver ends the wait for events after the terminal one. It is no error of anybody.
var errGraceOver = errors.New("grace over")

// errNoLastEvent is why a body that ended in order was no whole stream. src/contract/streams.ts has the same word.
var errNoLastEvent = errors.New("no_last_event")

// classify says what a failed round trip or read means. The context comes first: when we cut the connection, what the read says is only
// the echo. What is neither a time-out nor an early end is a broken connection; the text says which way.
func classify(ctx context.Context, err error) (end, error) {
	cause := context.Cause(ctx)
	timeout, isTimeout := as[*timeoutError](cause)
	network, isNetwork := as[net.Error](err)
	switch {
	case isTimeout:
		return endTimeout, timeout
	case cause != nil:
		return endClosed, fmt.Errorf("interrupted: %w", cause)
	case isNetwork && network.Timeout():
		return endTimeout, fmt.Errorf("timeout: %w", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return endTruncated, err
	}
	return endReset, err
}

// as finds an error of a type among those that an error wraps.
func as[T error](err error) (T, bool) {
	var found T
	is := errors.As(err, &found)
	return found, is
}

func has[T error](err error) bool {
	_, is := as[T](err)
	return is
}

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
	timeout, isTimeout := as[*timeoutError](err)
	expired, isExpired := as[x509.CertificateInvalidError](err)
	alert, isAlert := as[tls.AlertError](err)
	errno, _ := as[syscall.Errno](err)
	network, isNetwork := as[net.Error](err)
	operation, isOperation := as[*net.OpError](err)
	switch {
	case err == nil:
		return ""
	case errors.Is(err, errNoLastEvent):
		return errNoLastEvent.Error()
	case isTimeout:
		return timeout.code
	case has[*net.DNSError](err):
		return "dns_failed"
	case isExpired && expired.Reason == x509.Expired: // also: not yet valid
		return "tls_certificate_expired"
	case has[x509.HostnameError](err):
		return "tls_wrong_name"
	case has[x509.UnknownAuthorityError](err):
		return "tls_unknown_authority"
	case isAlert && refusesUs[alert]:
		return "tls_refused_us"
	case has[*tls.CertificateVerificationError](err), has[tls.RecordHeaderError](err), isAlert, errors.Is(err, http.ErrSchemeMismatch):
		return "tls_other"
	case codeOfErrno[errno] != "":
		return codeOfErrno[errno]
	case isNetwork && network.Timeout() && isOperation && operation.Op == "dial":
		return "connect_timeout"
	case isNetwork && network.Timeout():
		return "timeout"
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "connection_closed"
	case strings.Contains(err.Error(), "malformed HTTP"): // net/http has no type for it
		return "protocol_error"
	}
	return ""
}
