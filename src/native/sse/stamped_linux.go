package sse

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"go.k6.io/k6/v2/lib/netext"
	"golang.org/x/sys/unix"
)

// stamped is a TCP connection that knows when the system received what was read last, so that no time depends on when a goroutine gets to
// read: on a busy machine that is milliseconds later. What is read together has the moment of its last byte.
type stamped struct {
	net.Conn
	raw     syscall.RawConn
	receive func(fd uintptr) bool // made once: a closure for each read is garbage

	// Of the one goroutine that reads.
	into    []byte
	read    int
	err     error
	control [64]byte // what the system says of a read

	readAt atomic.Int64 // nanoseconds since anchor
}

// stamping makes connections of dial stamped. Those of another kind than k6 makes stay what they are.
func stamping(dial dialing) dialing {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if counted, ok := conn.(*netext.Conn); ok && err == nil {
			if tcp, ok := counted.Conn.(*net.TCPConn); ok {
				counted.Conn = stamp(tcp)
			}
		}
		return conn, err
	}
}

func stamp(tcp *net.TCPConn) net.Conn {
	raw, err := tcp.SyscallConn()
	if err != nil {
		return tcp
	}
	// Where stamps cannot be had, bytes come when they are read.
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	s := &stamped{Conn: tcp, raw: raw}
	s.receive = func(fd uintptr) bool {
		for {
			var controls int
			s.read, controls, _, _, s.err = unix.Recvmsg(int(fd), s.into, s.control[:], 0)
			if s.err == nil {
				s.readAt.Store(int64(s.arrival(controls)))
			}
			if !errors.Is(s.err, unix.EINTR) {
				return !errors.Is(s.err, unix.EAGAIN)
			}
		}
	}
	return s
}

func (s *stamped) Read(p []byte) (int, error) {
	s.into = p
	err := s.raw.Read(s.receive)
	s.into = nil
	switch {
	case err != nil: // closed, or past its deadline
		return 0, err
	case s.err != nil:
		err = os.NewSyscallError("read", s.err)
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
	case s.read == 0 && len(p) > 0:
		return 0, io.EOF
	}
	return s.read, nil
}

// arrival is when the system received the last of what was just read, since anchor. The system says it by the wall clock, which may have been
// set meanwhile: it is no later than now, and no earlier than the read before.
func (s *stamped) arrival(controls int) time.Duration {
	now := time.Now()
	since := now.Sub(anchor)
	if controls < unix.CmsgLen(0) {
		return since
	}
	header, data, _, err := unix.ParseOneSocketControlMessage(s.control[:controls])
	if err != nil || header.Type != unix.SCM_TIMESTAMPNS || len(data) < int(unsafe.Sizeof(unix.Timespec{})) {
		return since
	}
	waited := now.UnixNano() - (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
	return max(since-time.Duration(max(0, waited)), time.Duration(s.readAt.Load()))
}

// readAt is when the newest bytes of a connection came. Under TLS that is when they are read: what comes there are records.
func readAt(conn net.Conn) time.Time {
	if counted, ok := conn.(*netext.Conn); ok {
		if s, ok := counted.Conn.(*stamped); ok {
			return anchor.Add(time.Duration(s.readAt.Load()))
		}
	}
	return time.Now()
}
