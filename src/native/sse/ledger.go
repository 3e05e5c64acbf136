package sse

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// ledger is what all VUs of the process have spent together, and what they may still spend. Every call asks it before it leaves, so that
// a budget, a rate or a stop condition holds however many VUs there are. Without terms it only counts.
type ledger struct {
	turn    chan struct{} // one call at a time waits for the rate, the others behind it in order
	ended   chan struct{} // closed when stopped is set
	drained chan struct{} // closed and made anew whenever nothing is in flight any more
	alarm   alarm

	mu       sync.Mutex
	terms    *terms
	pace     pace
	spent    map[charge]int64 // requests under ""
	reserved map[charge]int64 // of spent, what calls in flight may yet give back
	freed    chan struct{}    // closed and made anew whenever it is known what came of a call
	streams  openStreams
	recent   recentCalls
	unsent   int64
	inFlight int
	most     int // in flight at once
	http1    int // answers by HTTP/1
	http2    int
	stopped  string // why nothing leaves any more
	draining bool
}

func newLedger() *ledger {
	return &ledger{
		turn:    make(chan struct{}, 1),
		ended:   make(chan struct{}),
		drained: make(chan struct{}),
		freed:   make(chan struct{}),

		spent:    map[charge]int64{},
		reserved: map[charge]int64{},
	}
}

// errUnsent says that a call did not leave, and why.
var errUnsent = errors.New("not sent")

// lease sets the terms. Each VU runs the init context of the script, so the same terms come many times.
func (l *ledger) lease(t *terms) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms != nil && !l.terms.same(t) {
		return errors.New("sse.lease: the process has other terms already; all VUs are to set the same ones")
	}
	if l.terms == nil {
		l.terms = t
		l.pace = newPace(t.maxPerS)
		stopOnSignal(l)
	}
	return nil
}

// take lets a call leave, waiting for its turn where there is a rate, or returns why it may not. What it may cost is taken at once; where
// calls in flight have taken all that is left, it waits until one of them turns out to be charged for nothing, or all to be charged.
func (l *ledger) take(ctx context.Context, kind charge, isStream bool) error {
	for {
		freed, err := l.inTurn(ctx, kind, isStream)
		if err != nil {
			return l.refuse(err)
		}
		if freed == nil {
			return nil
		}
		select {
		case <-freed:
		case <-l.ended:
		case <-ctx.Done():
			return l.refuse(context.Cause(ctx))
		}
	}
}

// inTurn takes the turn and the cost, waiting where there is a rate. What it returns is nil, or a channel to wait for before asking again:
// others may go meanwhile.
func (l *ledger) inTurn(ctx context.Context, kind charge, isStream bool) (<-chan struct{}, error) {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	defer func() { <-l.turn }()
	for {
		wait, freed, err := l.try(kind, isStream)
		if err != nil || wait == 0 {
			return freed, err
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-l.ended:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
}

// mayHold says whether a call may have waited here for a permitted rate or for what others have reserved: else what passes is our own time.
func (l *ledger) mayHold(kind charge) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pace.every != 0 {
		return true
	}
	if l.terms == nil || kind == "" {
		return false
	}
	_, bounded := l.terms.budget[kind]
	return bounded
}

// try takes the call's turn and its cost now, or says how long its turn is still away, or what to wait for.
func (l *ledger) try(kind charge, isStream bool) (time.Duration, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.stopped == "" {
		if l.isReserved(kind) {
			return 0, l.freed, nil
		}
		l.stop(l.spentUp(kind, isStream, now))
	}
	if l.stopped != "" {
		return 0, nil, fmt.Errorf("%w: %s", errUnsent, l.stopped)
	}
	if wait := l.pace.take(now); wait > 0 {
		return wait, nil, nil
	}
	l.spent[""]++
	if kind != "" {
		l.spent[kind]++
		l.reserved[kind]++
	}
	l.inFlight++
	l.most = max(l.most, l.inFlight)
	return 0, nil, nil
}

// isReserved says that nothing is left of a charge but what calls in flight may give back.
func (l *ledger) isReserved(kind charge) bool {
	if l.terms == nil || kind == "" {
		return false
	}
	allowed, bounded := l.terms.budget[kind]
	return bounded && l.spent[kind] >= allowed && l.spent[kind]-l.reserved[kind] < allowed
}

// spentUp names what a call would need and is used up, or gives "".
func (l *ledger) spentUp(kind charge, isStream bool, now time.Time) string {
	if l.terms == nil {
		return ""
	}
	for _, of := range []charge{"", kind} {
		if allowed, bounded := l.terms.budget[of]; bounded && l.spent[of] >= allowed {
			name := string(of)
			if of == "" {
				name = "requests"
			}
			return fmt.Sprintf("budget.%s of the target file is spent: %d were left for this load", name, allowed)
		}
	}
	if limit := l.terms.streamTime; limit != nil && isStream && l.streams.total(now) >= *limit {
		return fmt.Sprintf("budget.stream_seconds of the target file is spent: %g were left for this load", limit.Seconds())
	}
	return ""
}

// stop ends all sending; the first reason stays. The caller holds the lock.
func (l *ledger) stop(reason string) {
	if reason != "" && l.stopped == "" {
		l.stopped = reason
		close(l.ended)
	}
}

// endFor is stop for those who do not hold the lock.
func (l *ledger) endFor(reason string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(reason)
}

func (l *ledger) refuse(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.unsent++
	return err
}

// spoke counts the version of HTTP of an answer.
func (l *ledger) spoke(major int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if major == 2 {
		l.http2++
	} else {
		l.http1++
	}
}

// opened and closed bracket the time that a stream is open.
func (l *ledger) opened(at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams.open(at)
}

func (l *ledger) closed(openedAt, at time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.streams.close(openedAt, at)
}

// came notes what became of a call that was let go. What never reached the target was not spent, and a charge is given back where the
// target refused; a call without an answer may have been charged.
func (l *ledger) came(kind charge, came outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !came.left {
		l.spent[""]--
	}
	if kind != "" {
		l.reserved[kind]--
		if !came.charged {
			l.spent[kind]--
		}
	}
	close(l.freed)
	l.freed = make(chan struct{})
	if came.ours || l.terms == nil || l.terms.stopErrorRate == nil {
		return
	}
	l.recent.add(time.Now(), came.isError() && !l.terms.tolerates(came.name))
	l.stop(l.recent.tooMany(*l.terms.stopErrorRate))
}

// settled says that the script has taken note of a call: only then may the test be cut short without losing it.
func (l *ledger) settled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.inFlight--
	if l.inFlight == 0 {
		close(l.drained)
		l.drained = make(chan struct{})
	}
}

// drain waits until no call is in flight and returns true to its first caller; false at once to all others.
func (l *ledger) drain(ctx context.Context, limit time.Duration) bool {
	l.mu.Lock()
	if l.draining {
		l.mu.Unlock()
		return false
	}
	l.draining = true
	idle, drained := l.inFlight == 0, l.drained
	l.mu.Unlock()
	if !idle {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		select {
		case <-drained:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	return true
}

// account is the ledger as a script reads it.
func (l *ledger) account() map[string]any {
	l.mu.Lock()
	defer l.mu.Unlock()
	var stopped any
	if l.stopped != "" {
		stopped = l.stopped
	}
	return map[string]any{
		"requests":       l.spent[""],
		"map_loads":      l.spent[chargeMapLoads],
		"analyses":       l.spent[chargeAnalyses],
		"stream_seconds": l.streams.total(time.Now()).Seconds(),
		"unsent":         l.unsent,
		"in_flight":      l.inFlight,
		"most_in_flight": l.most,
		"http1":          l.http1,
		"http2":          l.http2,
		"stopped":        stopped,
	}
}
