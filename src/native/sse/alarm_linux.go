package sse

import (
	"container/heap"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// alarm wakes calls at their moments. A timer of Go sleeps in epoll_wait, whose time-out is in whole milliseconds, so that it comes half a
// millisecond late in the mean; a timerfd is on time to some tens of microseconds, and the runtime waits for it as for a socket. The zero
// value is ready.
type alarm struct {
	mu      sync.Mutex
	fd      int // of timer, whose own method would make it a file that blocks
	timer   *os.File
	waiting moments
	broken  error // why no moment comes any more
}

type moment struct {
	us   int64
	come chan struct{}
}

// moments is a heap of container/heap: the earliest first.
type moments []moment

func (m moments) Len() int           { return len(m) }
func (m moments) Less(i, j int) bool { return m[i].us < m[j].us }
func (m moments) Swap(i, j int)      { m[i], m[j] = m[j], m[i] }
func (m *moments) Push(x any)        { *m = append(*m, x.(moment)) }
func (m *moments) Pop() any {
	old := *m
	last := old[len(old)-1]
	*m = old[:len(old)-1]
	return last
}

// at returns what is closed when a moment, in microseconds since 1970, has come, or when the timer has failed. One that nobody waits for
// any more costs its place until then.
func (a *alarm) at(us int64) (<-chan struct{}, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.timer == nil && a.broken == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return nil, os.NewSyscallError("timerfd_create", err)
		}
		a.fd, a.timer = fd, os.NewFile(uintptr(fd), "timerfd")
		go a.ring()
	}
	if a.broken != nil {
		return nil, a.broken
	}
	m := moment{us, make(chan struct{})}
	heap.Push(&a.waiting, m)
	if a.waiting[0] != m {
		return m.come, nil
	}
	return m.come, a.set()
}

// failed is why no moment comes any more, or nil.
func (a *alarm) failed() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.broken
}

// ring tells those whose moment has come, as often as the timer goes off.
func (a *alarm) ring() {
	var times [8]byte // how often it went off since the last reading
	for {
		_, err := a.timer.Read(times[:])
		if err = a.tell(err); err != nil {
			return
		}
	}
}

// tell tells those whose moment has come and sets the timer to the next; everybody, where the timer has failed.
func (a *alarm) tell(failure error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = failure
	for len(a.waiting) > 0 && until(a.waiting[0].us) <= 0 {
		close(heap.Pop(&a.waiting).(moment).come)
	}
	if a.broken == nil && len(a.waiting) > 0 {
		a.broken = a.set()
	}
	if a.broken != nil {
		for _, m := range a.waiting {
			close(m.come)
		}
		a.waiting = nil
	}
	return a.broken
}

// set sets the timer to the earliest moment.
func (a *alarm) set() error {
	wait := max(1, until(a.waiting[0].us)) // 0 would switch it off
	in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
	return os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(a.fd, 0, &in, nil))
}
