package sse

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// graceAfterTerminal is how long a stream is read on after its terminal event, for events that must not come any more.
// Shorter than in src/client/send-request.ts: what waits holds a VU, or a place of those that may be under way at once.
const graceAfterTerminal = 250 * time.Millisecond

// timeouts cancels an exchange when a time-out passes: the blocked read then returns, so that no goroutine stands beside each stream
// and a read costs one atomic store.
type timeouts struct {
	cancel  context.CancelCauseFunc
	idle    time.Duration
	started time.Time

	lastRead atomic.Int64 // nanoseconds since started
	inScript atomic.Bool  // handlers run and nobody reads: the silence is not the server's
	unread   atomic.Pointer[collected]

	mu      sync.Mutex // the idle timer starts itself again, which must not happen after stop
	stopped bool
	total   *time.Timer
	first   *time.Timer
	silence *time.Timer
	late    *time.Timer
}

func newTimeouts(cancel context.CancelCauseFunc, r *request, started time.Time) *timeouts {
	w := &timeouts{cancel: cancel, idle: r.idleTimeout, started: started}
	w.total = w.after(r.timeout, "the exchange did not end", "call_timeout")
	w.first = w.after(r.firstEventTimeout, "no first event", "first_event_timeout")
	return w
}

func (w *timeouts) after(limit time.Duration, what, code string) *time.Timer {
	if limit == 0 {
		return nil
	}
	return time.AfterFunc(limit, func() { w.cancel(&timeoutError{what, limit, code}) })
}

// answered ends the wait for a first event: it came, or an answer came that will have none.
func (w *timeouts) answered() {
	if w.first != nil {
		w.first.Stop()
	}
}

// watchBody starts the idle time-out. It counts from the head of the answer on: before that the server thinks, which firstEventTimeout
// bounds.
func (w *timeouts) watchBody() {
	w.read(time.Now())
	if w.idle > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.silence = time.AfterFunc(w.idle, w.checkSilence)
	}
}

func (w *timeouts) checkSilence() {
	w.mu.Lock()
	defer w.mu.Unlock()
	silent := time.Since(w.started) - time.Duration(w.lastRead.Load())
	switch {
	case w.stopped:
	case w.inScript.Load():
		w.silence.Reset(w.idle)
	case w.unread.Load().isBehind(): // what came is soon read, and then this knows when it came
		w.silence.Reset(min(w.idle, holdFor))
	case silent < w.idle:
		w.silence.Reset(w.idle - silent)
	default:
		w.cancel(&timeoutError{"no byte came", w.idle, "idle_timeout"})
	}
}

// read notes that bytes came; comments count, they are there to keep a stream alive.
func (w *timeouts) read(at time.Time) {
	w.lastRead.Store(int64(at.Sub(w.started)))
}

// handling brackets the time in the script's handlers.
func (w *timeouts) handling(run func()) {
	w.inScript.Store(true)
	run()
	w.read(time.Now())
	w.inScript.Store(false)
}

// watch looks also at what a collector has of the stream, which may be nil.
func (w *timeouts) watch(unread *collected) {
	w.unread.Store(unread)
}

func (w *timeouts) grace() {
	w.late = time.AfterFunc(graceAfterTerminal, func() { w.cancel(errGraceOver) })
}

func (w *timeouts) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.stopped = true
	for _, timer := range []*time.Timer{w.total, w.first, w.silence, w.late} {
		if timer != nil {
			timer.Stop()
		}
	}
}
