package sse

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"go.k6.io/k6/v2/lib/netext"
	"golang.org/x/sys/unix"
)

// precise has a place for each timer descriptor open at once: OTHER_FILES of src/drivers/k6/k6.ts keeps 200 free beside connections.
var precise = make(chan struct{}, 100)

// sleepUntil waits for a moment, in microseconds since 1970. A Go timer is half a millisecond late on average, because epoll_wait counts whole
// milliseconds; a timerfd is late by some tens of microseconds, and the runtime waits for it as for a socket. Of more calls than precise has places
// for, which cannot all leave at one moment anyway, the rest wait by Go timers.
func sleepUntil(us int64) error {
	select {
	case precise <- struct{}{}:
		defer func() { <-precise }()
	default:
		time.Sleep(until(us))
		return nil
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	timer := os.NewFile(uintptr(fd), "timerfd")
	defer func() { _ = timer.Close() }()
	in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(1, until(us))))} // 0 would switch it off
	if err := unix.TimerfdSettime(fd, 0, &in, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var times [8]byte // how often it went off
	_, err = timer.Read(times[:])
	return err
}

// stamped is a TCP connection that knows when the kernel received the bytes read last: on a busy machine a goroutine reads them milliseconds
// later. Bytes read together have the time of the last one.
type stamped struct {
	net.Conn
	raw    syscall.RawConn
	readAt atomic.Int64 // nanoseconds since anchor

	// Used only by the one goroutine that reads. Kept between reads, because collecting garbage would delay the reads.
	receive func(fd uintptr) bool
	message unix.Msghdr
	iovec   unix.Iovec
	control [64]byte // the kernel's control messages of a read
	read    int
	errno   syscall.Errno
}

// stampReads makes the connections of a transport stamped, if they are of the kind that k6 makes.
func stampReads(transport *http.Transport) {
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
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
	// If the kernel gives no timestamps, the time of reading counts.
	_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) })
	s := &stamped{Conn: tcp, raw: raw}
	s.message.Iov, s.message.Control = &s.iovec, &s.control[0]
	s.message.SetIovlen(1)
	s.receive = func(fd uintptr) bool {
		for {
			s.message.SetControllen(len(s.control))
			n, _, errno := unix.Syscall(unix.SYS_RECVMSG, fd, uintptr(unsafe.Pointer(&s.message)), 0)
			if s.read, s.errno = int(n), errno; errno != unix.EINTR {
				return errno != unix.EAGAIN
			}
		}
	}
	return s
}

func (s *stamped) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	s.iovec.Base = &p[0]
	s.iovec.SetLen(len(p))
	err := s.raw.Read(s.receive)
	s.iovec.Base = nil
	switch {
	case err != nil: // closed, or past its deadline
		return 0, err
	case s.errno != 0:
		err = os.NewSyscallError("read", s.errno)
		return 0, &net.OpError{Op: "read", Net: "tcp", Source: s.LocalAddr(), Addr: s.RemoteAddr(), Err: err}
	case s.read == 0:
		return 0, io.EOF
	}
	s.readAt.Store(int64(s.arrival()))
	return s.read, nil
}

// arrival returns when the kernel received the last byte just read, since anchor. The kernel uses the wall clock, which may have been set meanwhile,
// so the result lies between the previous read and now.
func (s *stamped) arrival() time.Duration {
	now := time.Now()
	since := now.Sub(anchor)
	if s.message.Controllen < uint64(unix.CmsgLen(0)) {
		return since
	}
	header, data, _, err := unix.ParseOneSocketControlMessage(s.control[:s.message.Controllen])
	if err != nil || header.Type != unix.SCM_TIMESTAMPNS || len(data) < int(unsafe.Sizeof(unix.Timespec{})) {
		return since
	}
	waited := now.UnixNano() - (*unix.Timespec)(unsafe.Pointer(&data[0])).Nano()
	return max(since-time.Duration(max(0, waited)), time.Duration(s.readAt.Load()))
}

// readAt returns when the newest bytes of a connection came. Under TLS that is now, because the kernel sees only encrypted records.
func readAt(conn net.Conn) time.Time {
	if counted, ok := conn.(*netext.Conn); ok {
		if s, ok := counted.Conn.(*stamped); ok {
			return anchor.Add(time.Duration(s.readAt.Load()))
		}
	}
	return time.Now()
}
