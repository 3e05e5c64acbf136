package sse

import (
	"os"
	"slices"
	"sort"
	"sync"

	"golang.org/x/sys/unix"
)

// alarm wakes calls at their moments. A timer of Go is half a millisecond late on average, because epoll_wait counts whole milliseconds; a timerfd
// is on time to some tens of microseconds, and the runtime waits for it as for a socket. The zero value is ready.
type alarm struct {
	mu      sync.Mutex
	fd      int // of timer, whose own method would make it a file that blocks
	timer   *os.File
	waiting []moment // the earliest first
	broken  error    // why no moment comes any more
}

type moment struct {
	us   int64
	come chan error
}

// at returns a channel that receives nil at a moment, in microseconds since 1970, or why it does not come.
func (a *alarm) at(us int64) <-chan error {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := moment{us, make(chan error, 1)}
	place := sort.Search(len(a.waiting), func(i int) bool { return a.waiting[i].us > us })
	a.waiting = slices.Insert(a.waiting, place, m)
	if a.timer == nil && a.broken == nil {
		a.broken = a.open()
	}
	if place == 0 || a.broken != nil {
		a.set()
	}
	return m.come
}

func (a *alarm) open() error {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return os.NewSyscallError("timerfd_create", err)
	}
	a.fd, a.timer = fd, os.NewFile(uintptr(fd), "timerfd")
	go func() {
		var times [8]byte // how often it went off since the last reading
		for {
			_, err := a.timer.Read(times[:])
			if !a.ring(err) {
				return
			}
		}
	}()
	return nil
}

// ring tells those whose moment has come and sets the timer to the next; false where the timer has failed.
func (a *alarm) ring(failure error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.broken = failure
	due := 0
	for ; due < len(a.waiting) && until(a.waiting[due].us) <= 0; due++ {
		a.waiting[due].come <- nil
	}
	a.waiting = slices.Delete(a.waiting, 0, due)
	a.set()
	return a.broken == nil
}

// set sets the timer to the earliest moment, or tells everybody that it has failed.
func (a *alarm) set() {
	if a.broken == nil && len(a.waiting) > 0 {
		wait := max(1, until(a.waiting[0].us)) // 0 would switch it off
		in := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(wait))}
		a.broken = os.NewSyscallError("timerfd_settime", unix.TimerfdSettime(a.fd, 0, &in, nil))
	}
	if a.broken != nil {
		for _, m := range a.waiting {
			m.come <- a.broken
		}
		a.waiting = nil
	}
}
