package sse

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// turnEarly is how long before its moment a resting VU gets an arrival, to compute the call. A Go timer may be a millisecond late.
	turnEarly = 3 * time.Millisecond
	// turnAhead is the same for a VU that is awake and need not wait for its calls. Calls computed in a row cost a fraction, because a core's caches
	// lose the script between two calls that are 1.3 ms apart.
	turnAhead = 20 * time.Millisecond
)

// turns decides which VU plays which arrival. k6 numbers an iteration when a VU begins it, so all VUs would take strict turns: each of two
// thousand would be used rarely, with cold memory and a connection of its own. Here a VU gives its number back and rests, and the VU that came
// to rest last plays the arrival that is due, so no more VUs are used than calls are under way. The zero value is ready.
type turns struct {
	mu      sync.Mutex
	resting []chan arrival // the newest last
	numbers []arrival      // the earliest first; as many as there are resting VUs
	afterUs []float64      // the schedule, once it is known
}

type arrival struct {
	number int64
	us     int64 // when it is due, microseconds since 1970
}

// schedule gets the moments of all arrivals, the first time it is called.
func (t *turns) schedule(moments func() ([]float64, error)) (err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.afterUs == nil {
		t.afterUs, err = moments()
	}
	return err
}

func (t *turns) arrival(number, zeroUs int64) (arrival, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if number < 0 || number >= int64(len(t.afterUs)) {
		return arrival{}, fmt.Errorf("the schedule has %d arrivals, and none of the number %d", len(t.afterUs), number)
	}
	return arrival{number, zeroUs + int64(t.afterUs[number])}, nil
}

// take returns the earliest arrival if it is due within ahead, or rests until turnEarly before one is due; the number is -1 if the iteration or
// all sending ended before. The arrival that the VU brings goes to the VU that asks or rests when it is the earliest.
func (t *turns) take(ctx context.Context, ended <-chan struct{}, own arrival, ahead time.Duration) arrival {
	me := make(chan arrival, 1)
	t.mu.Lock()
	place, _ := slices.BinarySearchFunc(t.numbers, own, func(a, b arrival) int {
		return cmp.Or(cmp.Compare(a.us, b.us), cmp.Compare(a.number, b.number))
	})
	t.numbers = slices.Insert(t.numbers, place, own)
	next := t.numbers[0]
	isNear := until(next.us) <= ahead
	if isNear {
		t.numbers = slices.Delete(t.numbers, 0, 1)
	} else {
		t.resting = append(t.resting, me)
	}
	t.mu.Unlock()
	if !isNear || next != own { // a resting VU gets this VU's own arrival when it is due
		time.AfterFunc(until(own.us)-turnEarly, t.give)
	}
	if isNear {
		return next
	}
	select {
	case next := <-me:
		return next
	case <-ended:
	case <-ctx.Done():
	}
	return t.leave(me)
}

// leave removes a VU whose iteration is over, and with it the last arrival. A VU that was given an arrival meanwhile keeps it.
func (t *turns) leave(me chan arrival) arrival {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.resting, me)
	if at < 0 {
		return <-me
	}
	t.resting = slices.Delete(t.resting, at, at+1)
	t.numbers = t.numbers[:len(t.numbers)-1]
	return arrival{number: -1}
}

// give wakes the VU that came to rest last, for each arrival that is due.
func (t *turns) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.numbers) > 0 && until(t.numbers[0].us) <= turnEarly {
		newest := len(t.resting) - 1
		t.resting[newest] <- t.numbers[0]
		t.numbers = slices.Delete(t.numbers, 0, 1)
		t.resting = slices.Delete(t.resting, newest, newest+1)
	}
}

// anchor ties the monotonic clock to the wall clock once per process, so that a step of the wall clock moves no moment of a run.
var anchor = time.Now()

func unixMicro(t time.Time) int64 {
	return anchor.UnixMicro() + t.Sub(anchor).Microseconds()
}

// until returns the time left to a moment that a script gives in microseconds since 1970.
func until(us int64) time.Duration {
	return time.Duration(us-anchor.UnixMicro())*time.Microsecond - time.Since(anchor)
}
