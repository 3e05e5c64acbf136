package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/grafana/sobek"
	"golang.org/x/time/rate"
)

// charge names the meter that a call is charged to in addition to a request, or is "".
type charge string

const (
	chargeMapLoads charge = "map_loads"
	chargeAnalyses charge = "analyses"
)

// bounds is Budget of src/workload/budget.ts. Infinity means no bound.
type bounds struct {
	Requests      float64        `json:"requests"`
	MapLoads      float64        `json:"map_loads"`
	Analyses      float64        `json:"analyses"`
	StreamSeconds float64        `json:"stream_seconds"`
	MaxPerS       float64        `json:"maxPerS"`
	StopErrorRate float64        `json:"stopErrorRate"`
	Tolerated     []string       `json:"tolerated"` // beginnings of outcomes that are no errors
	Stated        map[string]any `json:"stated"`    // the whole budget of the target file, if these bounds are a share of it
}

var none = math.Inf(1)

var unbounded = bounds{Requests: none, MapLoads: none, Analyses: none, StreamSeconds: none, MaxPerS: none, StopErrorRate: none}

// boundsOf checks what a script gives: a misspelt member would be a bound that is silently missing.
func boundsOf(value sobek.Value) (bounds, error) {
	b := unbounded
	if err := decode(value, &b); err != nil {
		return b, err
	}
	for name, bound := range map[string]float64{
		"requests": b.Requests, "map_loads": b.MapLoads, "analyses": b.Analyses, "stream_seconds": b.StreamSeconds, "stopErrorRate": b.StopErrorRate,
	} {
		if bound < 0 {
			return b, fmt.Errorf("%s: expected a number that is not negative, got %g", name, bound)
		}
	}
	if b.MaxPerS <= 0 {
		return b, fmt.Errorf("maxPerS: expected a number above 0, got %g", b.MaxPerS)
	}
	return b, nil
}

// of returns the bound of a charge, or of requests for "".
func (b *bounds) of(kind charge) float64 {
	switch kind {
	case chargeMapLoads:
		return b.MapLoads
	case chargeAnalyses:
		return b.Analyses
	}
	return b.Requests
}

func (b *bounds) tolerates(outcome string) bool {
	return slices.ContainsFunc(b.Tolerated, func(begins string) bool { return strings.HasPrefix(outcome, begins) })
}

// budget counts what all VUs of the process spend together; every call asks it before it leaves. src/workload/budget.ts has the same rules, and
// budget-cases.json in that folder tests both.
type budget struct {
	turn    chan struct{}           // held by the one call that waits for the rate; the others wait behind it in order
	sending context.Context         // over when no call may leave any more; its cause is a *stop
	end     context.CancelCauseFunc // ends sending; only the first cause is kept
	drained chan struct{}           // closed and replaced whenever the last call in flight is settled

	mu       sync.Mutex
	isSet    bool
	bounds   bounds
	pace     *rate.Limiter
	spent    map[charge]int64 // requests under ""
	reserved map[charge]int64 // the part of spent that calls in flight may still give back
	freed    chan struct{}    // closed and replaced whenever the outcome of a call is known
	recent   recentCalls
	inFlight int
	most     int // most calls in flight at once
	draining bool

	open       int           // open streams
	streamTime time.Duration // total of the ended streams, minus the beginnings (since anchor) of the open ones

	unsent atomic.Int64
	http1  atomic.Int64 // answers by HTTP/1
	http2  atomic.Int64
}

// stop is why no call leaves any more: by for programs, reason for people.
type stop struct{ by, reason string }

func (s *stop) Error() string { return "not sent: " + s.reason }

func newBudget() *budget {
	sending, end := context.WithCancelCause(context.Background())
	return &budget{
		turn:    make(chan struct{}, 1),
		sending: sending,
		end:     end,
		drained: make(chan struct{}),
		freed:   make(chan struct{}),
		bounds:  unbounded,
		pace:    rate.NewLimiter(rate.Inf, 1),
		spent:   map[charge]int64{}, reserved: map[charge]int64{},
	}
}

// set sets the bounds and listens for the signals that end sending. Every VU calls it with the same bounds; only the first call has an effect.
func (b *budget) set(wanted bounds) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.isSet {
		if !reflect.DeepEqual(b.bounds, wanted) {
			return errors.New("the process has another budget already; all VUs are to set the same one")
		}
		return nil
	}
	b.isSet, b.bounds = true, wanted
	if wanted.MaxPerS != none {
		b.pace = newPace(wanted.MaxPerS)
	}
	b.endOnSignal()
	return nil
}

// endOnSignal ends sending when the process is asked to stop. The runner asks by SIGUSR1: no more calls leave, and those in flight end by
// themselves. The signals that k6 itself handles also end sending, so that finish waits no longer than a drain for calls of begin.
func (b *budget) endOnSignal() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-asked
		b.end(&stop{"asked", "the runner asked to stop"})
	}()
}

// take lets a call leave or returns why it may not. It waits for the rate and, if calls in flight have reserved all that is left of a charge, for
// those calls; other calls may leave meanwhile.
func (b *budget) take(ctx context.Context, kind charge, isStream bool) error {
	for {
		select {
		case b.turn <- struct{}{}:
		case <-ctx.Done():
			return b.refuse(context.Cause(ctx))
		}
		wait, freed, err := b.try(time.Now(), kind, isStream)
		for wait > 0 && err == nil {
			if err = rest(ctx, time.After(wait), b.sending.Done()); err == nil {
				wait, freed, err = b.try(time.Now(), kind, isStream)
			}
		}
		<-b.turn
		if err == nil && freed == nil {
			return nil
		}
		if err == nil {
			err = rest(ctx, freed, b.sending.Done())
		}
		if err != nil {
			return b.refuse(err)
		}
	}
}

// rest waits for one of the two channels, or returns why the iteration ended.
func rest[T any](ctx context.Context, come <-chan T, over <-chan struct{}) error {
	select {
	case <-come:
	case <-over:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return nil
}

// try takes the call's turn and its cost now, or returns how long to wait for the turn, or the channel to wait for before trying again.
func (b *budget) try(now time.Time, kind charge, isStream bool) (wait time.Duration, freed <-chan struct{}, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if unit, limit := b.lacking(now, kind, isStream); unit != "" && b.sending.Err() == nil {
		if unit == string(kind) && float64(b.spent[kind]-b.reserved[kind]) < limit {
			return 0, b.freed, nil
		}
		if stated, ok := b.bounds.Stated[unit].(float64); ok {
			limit = stated
		}
		b.end(&stop{"spent", fmt.Sprintf("budget.%s of the target file (%s) is spent", unit, strconv.FormatFloat(limit, 'f', -1, 64))})
	}
	if why := context.Cause(b.sending); why != nil {
		return 0, nil, why
	}
	if wait := takeTurn(b.pace, now); wait > 0 {
		return wait, nil, nil
	}
	b.spent[""]++
	if kind != "" {
		b.spent[kind]++
		b.reserved[kind]++
	}
	b.inFlight++
	b.most = max(b.most, b.inFlight)
	return 0, nil, nil
}

// lacking returns the unit of which too little is left for a call, and its bound; or "".
func (b *budget) lacking(now time.Time, kind charge, isStream bool) (string, float64) {
	for _, unit := range []charge{"", kind} {
		if most := b.bounds.of(unit); float64(b.spent[unit])+1 > most {
			return cmp.Or(string(unit), "requests"), most
		}
	}
	if most := b.bounds.StreamSeconds; isStream && b.streamSeconds(now) >= most {
		return "stream_seconds", most
	}
	return "", 0
}

// mayHold reports whether the budget may have made a call wait; otherwise a delay is our own processing time.
func (b *budget) mayHold(kind charge) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pace.Limit() != rate.Inf || kind != "" && b.bounds.of(kind) != none
}

func (b *budget) refuse(err error) error {
	b.unsent.Add(1)
	return err
}

func (b *budget) streamBegan(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	b.streamTime -= at.Sub(anchor)
}

func (b *budget) streamEnded(at time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open--
	b.streamTime += at.Sub(anchor)
}

func (b *budget) streamSeconds(now time.Time) float64 {
	return (b.streamTime + time.Duration(b.open)*now.Sub(anchor)).Seconds()
}

// callEnded settles a call: one that never left is not spent, a refusal is not charged, and a call without an answer may have been charged.
func (b *budget) callEnded(now time.Time, kind charge, by outcome) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !by.left {
		b.spent[""]--
	}
	if kind != "" {
		b.reserved[kind]--
		if !by.charged {
			b.spent[kind]--
		}
	}
	close(b.freed)
	b.freed = make(chan struct{})
	if !by.ours {
		b.recent.add(now, by.isError() && !b.bounds.tolerates(by.name))
		if errors := b.recent.tooMany(b.bounds.StopErrorRate); errors != "" {
			b.end(&stop{"errors", errors})
		}
	}
}

// waitUntil blocks until the moment and returns true, or until the end of the iteration or of all sending and returns false. Only the last
// milliseconds need the precise timer, of which each call has its own: it is a descriptor.
func (b *budget) waitUntil(ctx context.Context, us int64) (bool, error) {
	if early := until(us) - turnEarly; early > 0 {
		select {
		case <-time.After(early):
		case <-b.sending.Done():
			return false, nil
		case <-ctx.Done():
			return false, nil
		}
	}
	if until(us) <= 0 {
		return true, nil
	}
	err := sleepUntil(us)
	return err == nil, err
}

// settled notes that the script has recorded a call: only then can the test be cut short without losing the call.
func (b *budget) settled() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.inFlight--
	if b.inFlight == 0 {
		close(b.drained)
		b.drained = make(chan struct{})
	}
}

// drain waits until no call is in flight, at most for the limit, and returns true to its first caller; it returns false at once to all others.
func (b *budget) drain(ctx context.Context, limit time.Duration) bool {
	b.mu.Lock()
	isFirst, isIdle, drained := !b.draining, b.inFlight == 0, b.drained
	b.draining = true
	b.mu.Unlock()
	if isFirst && !isIdle {
		_ = rest(ctx, time.After(limit), drained)
	}
	return isFirst
}

// account returns what was spent: PrintedSpent of src/workload/handover.ts, without its type.
func (b *budget) account() map[string]any {
	b.mu.Lock()
	defer b.mu.Unlock()
	var stopped any
	if why, is := as[*stop](context.Cause(b.sending)); is {
		stopped = map[string]any{"by": why.by, "reason": why.reason}
	}
	return map[string]any{
		"unsent": b.unsent.Load(), "cut": b.inFlight, "most": b.most, "http1": b.http1.Load(), "http2": b.http2.Load(),
		"stopped": stopped, "spent": map[string]any{
			"requests": b.spent[""], "map_loads": b.spent[chargeMapLoads], "analyses": b.spent[chargeAnalyses],
			"stream_seconds": b.streamSeconds(time.Now()),
		},
	}
}

// Calls leave at a little less than the permitted rate, because a network bunches them. The burst is the calls of a twentieth of a second, at least one.
const (
	rateShare  = 0.95
	burstShare = 0.05
)

func newPace(perS float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(rateShare*perS), int(max(1, burstShare*perS)))
}

// takeTurn takes a turn of the rate now and returns 0, or returns how long to wait before asking again.
func takeTurn(pace *rate.Limiter, now time.Time) time.Duration {
	turn := pace.ReserveN(now, 1)
	wait := turn.DelayFrom(now)
	if wait > 0 {
		turn.CancelAt(now)
	}
	return wait
}
