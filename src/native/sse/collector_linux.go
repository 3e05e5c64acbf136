package sse

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"go.k6.io/k6/v2/lib/netext"
	"golang.org/x/sys/unix"
)

const (
	holdFor   = 500 * time.Millisecond // who reads a stream is woken so long after a piece came
	holdBytes = 4 << 10                // or when so many bytes wait
	holdMost  = 64 << 10               // and more than these stay with the system
	yieldFor  = time.Nanosecond        // where more waits: who never gives way is sent to the end of the queue of all after 10 ms
	restFor   = time.Millisecond       // between two looks: a thread that waits is woken for each event, which costs the target too
	lateFor   = 10 * restFor           // what may have waited for longer may be several events, which are read one by one
	apartMost = 64                     // so many of them, and the others together
)

// collector reads open streams, all of them on one goroutine, and wakes who reads a stream once for several events: woken for each, k6
// needs a tenth of a core more for 75,000 events a second. A piece keeps the moment when the system received it, so that no time depends on
// when it is looked at; what was read together has that of its last byte. The zero value is ready.
type collector struct {
	mu     sync.Mutex
	fd     int // of epoll
	broken error
	conns  map[uint64]*collected
	newest uint64

	// of run alone
	wakeups   []wakeup // in the order of their moments
	buffer    []byte
	control   []byte // what the system says of a reading
	iovec     unix.Iovec
	message   unix.Msghdr
	isStamped bool      // the system said when the newest piece came
	sawAll    time.Time // the last look for which nothing was left
	sizes     []int     // of what is read one by one
}

// wakeup is a reader that is to be woken at a moment.
type wakeup struct {
	conn *collected
	at   time.Time
}

// collected is a connection that a collector reads.
type collected struct {
	collector *collector
	id        uint64

	mu     sync.Mutex
	more   sync.Cond
	fd     int  // -1 once it is closed
	holds  bool // who reads is woken for several pieces
	waits  bool // somebody is in read
	isHeld bool // it will be woken
	full   bool // nothing more is taken until the pieces were read
	bytes  []byte
	seen   int // of bytes
	pieces []piece
	next   int           // of pieces
	came   time.Time     // when the newest piece did
	gap    time.Duration // from the piece before to the newest
	readAt time.Time     // when the piece came that was read last
	err    error         // what comes after the pieces
}

// piece is what one reading of the socket gave and nobody has seen yet.
type piece struct {
	size int
	at   time.Time
}

// collectable is a connection as it was dialled, which can be handed to a collector while nobody is reading it.
type collectable struct {
	net.Conn
	collector *collector
	to        atomic.Pointer[collected]

	mu     sync.Mutex
	closed bool
}

// dialing makes connections of dial collectable. Those of another kind than k6 makes stay what they are.
func (c *collector) dialing(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if counted, ok := conn.(*netext.Conn); ok && err == nil {
			if _, isTCP := counted.Conn.(*net.TCPConn); isTCP {
				counted.Conn = &collectable{Conn: counted.Conn, collector: c}
			}
		}
		return conn, err
	}
}

// collect hands a connection over for a stream, or gives nil where it cannot be: then it is read as before. A connection under TLS is not
// seen here: what comes on it are records, not events.
func collect(conn net.Conn) *collected {
	c := collectableOf(conn)
	if c == nil {
		return nil
	}
	if to := c.to.Load(); to != nil {
		to.hold(true)
		return to
	}
	return c.handOver()
}

// collectedOf is a connection that was handed over for an earlier stream, or nil.
func collectedOf(conn net.Conn) *collected {
	if c := collectableOf(conn); c != nil {
		return c.to.Load()
	}
	return nil
}

func collectableOf(conn net.Conn) *collectable {
	if counted, ok := conn.(*netext.Conn); ok {
		if c, ok := counted.Conn.(*collectable); ok {
			return c
		}
	}
	return nil
}

func (c *collectable) handOver() *collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	to, err := c.collector.take(c.Conn.(*net.TCPConn))
	if err != nil {
		return nil
	}
	_ = c.Conn.Close() // the first descriptor
	c.to.Store(to)
	return to
}

func (c *collectable) Read(p []byte) (int, error) {
	if to := c.to.Load(); to != nil {
		n, err := to.read(p)
		return n, c.named("read", err)
	}
	return c.Conn.Read(p)
}

func (c *collectable) Write(p []byte) (int, error) {
	if to := c.to.Load(); to != nil {
		n, err := to.write(p)
		return n, c.named("write", err)
	}
	return c.Conn.Write(p)
}

func (c *collectable) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if to := c.to.Load(); to != nil {
		return c.named("close", to.close())
	}
	return c.Conn.Close()
}

// named says of an error what package net says of it.
func (c *collectable) named(what string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	if errno, ok := err.(syscall.Errno); ok {
		err = os.NewSyscallError(what, errno)
	}
	return &net.OpError{Op: what, Net: c.RemoteAddr().Network(), Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}

// take reads a connection from now on, by a second descriptor of its socket: what Go's own poller has been told of the first would wake it
// for every piece as well.
func (c *collector) take(conn *net.TCPConn) (*collected, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	fd := -1
	if controlErr := raw.Control(func(own uintptr) { fd, err = unix.FcntlInt(own, unix.F_DUPFD_CLOEXEC, 0) }); controlErr != nil {
		return nil, controlErr
	}
	if err != nil {
		return nil, os.NewSyscallError("fcntl", err)
	}
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1) // where it cannot be had, a piece comes when it is read
	to := &collected{collector: c, fd: fd, holds: true, came: time.Now()}
	to.more.L = &to.mu
	if err = c.add(to); err != nil {
		_ = unix.Close(fd)
		return nil, err
	}
	return to, nil
}

func (c *collector) add(conn *collected) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conns == nil && c.broken == nil {
		c.broken = c.open()
	}
	if c.broken != nil {
		return c.broken
	}
	c.newest++
	conn.id = c.newest
	c.conns[conn.id] = conn
	err := unix.EpollCtl(c.fd, unix.EPOLL_CTL_ADD, conn.fd, interest(conn.id))
	if err != nil {
		delete(c.conns, conn.id)
	}
	return os.NewSyscallError("epoll_ctl", err)
}

func (c *collector) open() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	c.fd, c.conns = fd, map[uint64]*collected{}
	c.buffer, c.control = make([]byte, 64<<10), make([]byte, unix.CmsgSpace(int(unsafe.Sizeof(unix.Timespec{}))))
	c.iovec.Base, c.message.Iov, c.message.Control = &c.buffer[0], &c.iovec, &c.control[0]
	c.message.SetIovlen(1)
	go c.run()
	return nil
}

// interest is what is wanted to be known of a connection: each time when something new has come. Its number stands where the descriptor
// usually does, because a descriptor is given to another connection as soon as it is closed.
func interest(id uint64) *unix.EpollEvent {
	return &unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(id), Pad: int32(id >> 32)}
}

func (c *collector) find(event unix.EpollEvent) *collected {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.conns[uint64(uint32(event.Fd))|uint64(uint32(event.Pad))<<32]
}

func (c *collector) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, id)
}

func (c *collector) run() {
	events := make([]unix.EpollEvent, 256)
	for {
		lookedAt := time.Now()
		n, err := pollNow(c.fd, events)
		if n == 0 && err == nil {
			n, err = unix.EpollWait(c.fd, events, c.patienceMs())
		}
		if err != nil && !errors.Is(err, unix.EINTR) {
			c.fail(os.NewSyscallError("epoll_wait", err))
			return
		}
		for _, event := range events[:max(0, n)] {
			if conn := c.find(event); conn != nil {
				c.fill(conn, event.Events&(unix.EPOLLRDHUP|unix.EPOLLHUP|unix.EPOLLERR) != 0)
			}
		}
		c.wake()
		if n == len(events) {
			time.Sleep(yieldFor)
			continue
		}
		c.sawAll = lookedAt
		if n > 0 && c.isStamped {
			time.Sleep(restFor)
		}
	}
}

// pollNow does not wait. Go's scheduler is not told of it, nor of receive, because it would give this goroutine's processor to others, and
// give one back only after those that were ready before.
func pollNow(fd int, events []unix.EpollEvent) (int, error) {
	n, _, errno := unix.RawSyscall6(unix.SYS_EPOLL_PWAIT, uintptr(fd), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)), 0, 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}

// receive reads at most so much into the buffer. controls: how many bytes the system says of it.
func (c *collector) receive(fd, most int, flags uintptr) (n, controls int, err error) {
	c.iovec.SetLen(most)
	c.message.SetControllen(len(c.control))
	got, _, errno := unix.RawSyscall(unix.SYS_RECVMSG, uintptr(fd), uintptr(unsafe.Pointer(&c.message)), flags)
	if errno != 0 {
		return 0, 0, errno
	}
	return int(got), int(c.message.Controllen), nil
}

// patienceMs is for how long nothing is to be done where nothing comes: -1 for ever.
func (c *collector) patienceMs() int {
	if len(c.wakeups) == 0 {
		return -1
	}
	return int(max(0, time.Until(c.wakeups[0].at)+time.Millisecond-1) / time.Millisecond)
}

// fail ends all connections, and no other is taken.
func (c *collector) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.broken = err
	for _, conn := range c.conns {
		conn.mu.Lock()
		conn.err = err
		conn.more.Broadcast()
		conn.mu.Unlock()
	}
}

// fill reads what has come. ends: the other side has ended the connection, so it is read to its end.
func (c *collector) fill(conn *collected, ends bool) {
	conn.mu.Lock()
	defer conn.mu.Unlock()
	isNew := false
	var sizes []int
	if conn.fd >= 0 && conn.err == nil {
		sizes, conn.err = c.apart(conn)
		isNew = conn.err != nil
	}
	for conn.fd >= 0 && conn.err == nil {
		if conn.unread() >= holdMost {
			conn.full = true
			break
		}
		most := len(c.buffer)
		if len(sizes) > 0 {
			most, sizes = sizes[0], sizes[1:]
		}
		n, controls, err := c.receive(conn.fd, most, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if errors.Is(err, unix.EAGAIN) {
			break
		}
		isNew = true
		switch {
		case err != nil:
			conn.err = err
		case n == 0:
			conn.err = io.EOF
		default:
			conn.bytes = append(conn.bytes, c.buffer[:n]...)
			came := c.arrival(conn.came, controls)
			conn.came, conn.gap = came, came.Sub(conn.came)
			conn.pieces = append(conn.pieces, piece{n, conn.came})
		}
		if n < most && !ends {
			break
		}
	}
	switch {
	case !isNew || !conn.waits:
	case !conn.holds || conn.err != nil || conn.endsBody() || conn.unread() >= holdBytes:
		conn.more.Signal()
	case !conn.isHeld:
		conn.isHeld = true
		c.wakeups = append(c.wakeups, wakeup{conn, conn.pieces[conn.next].at.Add(holdFor)})
	}
}

// apart is how much is to be read at a time, before all the rest, so that each event has its own moment: nothing, where one reading does
// as well. The system keeps apart what came apart until it has acknowledged the first of it: when that is read, or 40 ms after it came, but
// at once while a connection is new. Looking costs as much as reading, so it is left out where a second event would have come much sooner
// than the last one did.
func (c *collector) apart(conn *collected) ([]int, error) {
	if !c.isStamped || time.Since(c.sawAll) < lateFor || time.Since(conn.came) < conn.gap*3/2 {
		return nil, nil
	}
	n, _, err := c.receive(conn.fd, len(c.buffer), unix.MSG_PEEK)
	switch {
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR):
		return nil, nil
	case err != nil: // the system says it once
		return nil, err
	}
	c.sizes = sizesOfEvents(c.sizes[:0], c.buffer[:n])
	return c.sizes, nil
}

// sizesOfEvents appends the sizes of the events in some bytes but for the last of them. A chunk that ends with a line is cut as well, which
// is no error: it was written by itself.
func sizesOfEvents(sizes []int, stream []byte) []int {
	at := 0
	for len(sizes) < apartMost {
		line := bytes.IndexByte(stream[at:], '\n')
		if line < 0 {
			break
		}
		at += line + 1
		rest, isBlank := bytes.CutPrefix(bytes.TrimPrefix(stream[at:], []byte("\r")), []byte("\n"))
		if !isBlank {
			continue
		}
		rest = bytes.TrimPrefix(rest, []byte("\r\n"))
		if len(rest) == 0 {
			break
		}
		sizes = append(sizes, len(stream)-len(rest))
		stream, at = rest, 0
	}
	return sizes
}

// arrival is when the system received the last of what was just read, so that a collector that is late makes no event late. The system says
// it by the wall clock, which may have been set meanwhile: it is no later than now, and no earlier than the piece before.
func (c *collector) arrival(before time.Time, controls int) time.Time {
	now := time.Now()
	c.isStamped = controls > 0
	if !c.isStamped {
		return now
	}
	header, data, _, err := unix.ParseOneSocketControlMessage(c.control[:controls])
	if err != nil || header.Type != unix.SCM_TIMESTAMPNS || len(data) < int(unsafe.Sizeof(unix.Timespec{})) {
		return now
	}
	at := now.Add(time.Duration((*unix.Timespec)(unsafe.Pointer(&data[0])).Nano() - now.UnixNano()))
	switch {
	case at.After(now):
		return now
	case at.Before(before):
		return before
	}
	return at
}

// wake wakes those whose moment has come. One that was woken earlier finds nothing new, or sees it a little earlier than it had to.
func (c *collector) wake() {
	if len(c.wakeups) == 0 {
		return
	}
	now := time.Now()
	for len(c.wakeups) > 0 && !c.wakeups[0].at.After(now) {
		conn := c.wakeups[0].conn
		c.wakeups[0] = wakeup{}
		c.wakeups = c.wakeups[1:]
		conn.mu.Lock()
		conn.isHeld = false
		if conn.unread() > 0 {
			conn.more.Signal()
		}
		conn.mu.Unlock()
	}
}

func (c *collected) unread() int {
	return len(c.bytes) - c.seen
}

// endsBody says whether this looks like the last chunk of a body.
func (c *collected) endsBody() bool {
	return bytes.HasSuffix(c.bytes, []byte("0\r\n\r\n"))
}

// hold says whether who reads is to be woken for each piece, or for several.
func (c *collected) hold(several bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = several
}

// lastRead is when the piece came that was read last; now, where nothing was collected.
func (c *collected) lastRead() time.Time {
	if c == nil {
		return time.Now()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readAt.IsZero() { // it came before the connection was handed over
		return time.Now()
	}
	return c.readAt
}

// isBehind says whether something has come that was not read. The three methods take nil for a stream that nobody collects.
func (c *collected) isBehind() bool {
	if c == nil {
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unread() > 0
}

// read gives one piece at most, so that all of it came at one moment. What came before an end is read before it, also where the end is ours.
func (c *collected) read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.unread() == 0 {
		if c.err != nil {
			return 0, c.err
		}
		c.waits = true
		c.more.Wait()
		c.waits = false
	}
	first := &c.pieces[c.next]
	n := copy(p, c.bytes[c.seen:c.seen+first.size])
	c.seen, c.readAt = c.seen+n, first.at
	if first.size -= n; first.size == 0 {
		c.next++
	}
	if c.unread() == 0 {
		c.readOn()
	}
	return n, nil
}

// readOn makes room for what comes next.
func (c *collected) readOn() {
	c.bytes, c.pieces = c.bytes[:0], c.pieces[:0]
	c.seen, c.next = 0, 0
	if cap(c.bytes) > 2*holdBytes {
		c.bytes = nil
	}
	if c.full && c.fd >= 0 {
		c.full = false
		_ = unix.EpollCtl(c.collector.fd, unix.EPOLL_CTL_MOD, c.fd, interest(c.id)) // says again that something is there
	}
}

// write blocks until all of it is with the system.
func (c *collected) write(p []byte) (written int, err error) {
	for written < len(p) {
		n, err := c.writeSome(p[written:])
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// retryMs is for how long a write waits for room before it looks whether the connection was closed.
const retryMs = 100

func (c *collected) writeSome(p []byte) (int, error) {
	c.mu.Lock()
	fd := c.fd
	if fd < 0 {
		c.mu.Unlock()
		return 0, net.ErrClosed
	}
	n, err := unix.Write(fd, p)
	c.mu.Unlock()
	switch {
	case err == nil:
		return n, nil
	case errors.Is(err, unix.EAGAIN):
		// A descriptor that is closed meanwhile, and even one that is another's by then, costs no more than this wait.
		_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}, retryMs)
		return 0, nil
	case errors.Is(err, unix.EINTR):
		return 0, nil
	}
	return 0, err
}

func (c *collected) close() error {
	c.mu.Lock()
	if c.fd < 0 {
		c.mu.Unlock()
		return net.ErrClosed
	}
	err := unix.Close(c.fd)
	c.fd = -1
	if c.err == nil {
		c.err = net.ErrClosed
	}
	c.more.Broadcast()
	c.mu.Unlock()
	c.collector.forget(c.id)
	return os.NewSyscallError("close", err)
}
