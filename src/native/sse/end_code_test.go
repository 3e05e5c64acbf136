package sse

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"syscall"
	"testing"
	"time"
)

func TestTransportCodeIsOneWordForWhatBroke(t *testing.T) {
	dial := func(errno syscall.Errno) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
	}
	untrusted := func(err error) error { return &tls.CertificateVerificationError{Err: err} }
	for _, one := range []struct {
		want string
		err  error
	}{
		{"", nil},
		{"", errors.New("nobody has a word for it")},
		{"call_timeout", &timeoutError{"the exchange did not end", time.Second, "call_timeout"}},
		{"first_event_timeout", fmt.Errorf("after the terminal event: %w", &timeoutError{"no first event", time.Second, "first_event_timeout"})},
		{"idle_timeout", &timeoutError{"no byte came", time.Second, "idle_timeout"}},
		{"connection_refused", dial(syscall.ECONNREFUSED)},
		{"connection_reset", &net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}},
		{"connection_reset", &net.OpError{Op: "write", Err: os.NewSyscallError("write", syscall.EPIPE)}},
		{"unreachable", dial(syscall.ENETUNREACH)},
		{"no_local_port", dial(syscall.EADDRNOTAVAIL)},
		{"too_many_files", dial(syscall.EMFILE)},
		{"dns_failed", &net.OpError{Op: "dial", Err: &net.DNSError{Err: "no such host", IsNotFound: true}}},
		{"connect_timeout", fmt.Errorf("timeout: %w", &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded})},
		{"timeout", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}},
		{"tls_certificate_expired", untrusted(x509.CertificateInvalidError{Reason: x509.Expired})},
		{"tls_other", untrusted(x509.CertificateInvalidError{Reason: x509.TooManyIntermediates})},
		{"tls_wrong_name", untrusted(x509.HostnameError{Certificate: &x509.Certificate{}, Host: "maps.example"})},
		{"tls_unknown_authority", untrusted(x509.UnknownAuthorityError{})},
		{"tls_refused_us", &net.OpError{Op: "remote error", Err: tls.AlertError(116)}},
		{"tls_other", &net.OpError{Op: "remote error", Err: tls.AlertError(70)}},
		{"tls_other", http.ErrSchemeMismatch},
		{"connection_closed", io.EOF},
		{"connection_closed", io.ErrUnexpectedEOF},
		{"connection_closed", errors.New("http: server closed idle connection")},
		{"connection_closed", errors.New("http: persistConn.readLoop exiting")},
		{"connection_closed", errors.New("http: unexpected EOF reading trailer")},
		{"connection_closed", errors.New("http2: client connection lost")},
		{"connection_closed", errors.New("http2: client conn not usable")},
		{"connection_closed", errors.New(`http2: server sent GOAWAY and closed the connection; LastStreamID=1, ErrCode=NO_ERROR, debug=""`)},
		{"connection_closed", errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error")},
		{"connect_timeout", errors.New("net/http: TLS handshake timeout")},
		{"protocol_error", errors.New("stream error: stream ID 1; PROTOCOL_ERROR; received from peer")},
		{"protocol_error", errors.New("connection error: FLOW_CONTROL_ERROR")},
		{"protocol_error", errors.New("net/http: HTTP/1.x transport connection broken: malformed MIME header: missing colon: \"x\"")},
		{"protocol_error", errors.New("net/http: server response headers exceeded 65536 bytes; aborted")},
		{"protocol_error", errors.New("http2: response header list larger than advertised limit")},
		{"protocol_error", errors.New(`net/http: HTTP/1.x transport connection broken: bad Content-Length "1x"`)},
		{"protocol_error", errors.New("invalid byte in chunk length")},
		{"protocol_error", errors.New(`net/http: HTTP/1.x transport connection broken: unsupported transfer encoding: "x"`)},
		{"tls_other", errors.New("tls: server selected unsupported protocol version 301")},
		{"tls_other", errors.New(`http2: unexpected ALPN protocol ""; want "h2"`)},
		{"protocol_error", errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "what?"`)},
	} {
		if got := transportCode(one.err); got != one.want {
			t.Errorf("%v: expected %q, got %q", one.err, one.want, got)
		}
	}
}
