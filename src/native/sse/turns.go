package sse

import (
	"container/heap"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// turnEarly is how long before its moment an arrival is given to a VU that rests, which works out the call meanwhile. A timer of Go may
	// be a millisecond late.
	turnEarly = 3 * time.Millisecond
	// turnAhead is the same for a VU that is awake and need not wait for its calls. Those of a whole span of time are worked out one right
	// after the other, which costs a fraction of what each by itself does: between two that are 1.3 ms apart a busy core forgets the script.
	turnAhead = 20 * time.Millisecond
)

// turns decides which VU plays which arrival. k6 numbers an iteration when a VU begins it, long before its moment, so that all VUs would
// take strict turns: of two thousand of them each would be used every now and then, with memory that no cache holds and a connection of
// its own. Here a VU gives its number back and rests; when an arrival is due, the VU that came to rest last plays it. So no more VUs are
// used than calls are under way, and the others are there for the moment in which the target stands still.
type turns struct {
	mu      sync.Mutex
	resting []*resting // the newest last
	numbers arrivals   // as many as there are resting VUs
	changed chan struct{}
	started sync.Once

	scheduled sync.Mutex
	afterUs   []float64 // the schedule, once it is known
}

type resting struct {
	given chan arrival
}

type arrival struct {
	number int64
	us     int64 // when it is due, microseconds since 1970
}

func (a arrival) isBefore(b arrival) bool {
	return a.us < b.us || a.us == b.us && a.number < b.number
}

// arrivals is a heap of container/heap: the earliest first.
type arrivals []arrival

func (a arrivals) Len() int           { return len(a) }
func (a arrivals) Less(i, j int) bool { return a[i].isBefore(a[j]) }
func (a arrivals) Swap(i, j int)      { a[i], a[j] = a[j], a[i] }
func (a *arrivals) Push(x any)        { *a = append(*a, x.(arrival)) }
func (a *arrivals) Pop() any {
	old := *a
	last := old[len(old)-1]
	*a = old[:len(old)-1]
	return last
}

func newTurns() *turns {
	return &turns{changed: make(chan struct{}, 1)}
}

// schedule asks for the moments of all arrivals, the first time it is called.
func (t *turns) schedule(moments func() ([]float64, error)) (err error) {
	t.scheduled.Lock()
	defer t.scheduled.Unlock()
	if t.afterUs == nil {
		t.afterUs, err = moments()
	}
	return err
}

// arrival is one of the schedule, by its number.
func (t *turns) arrival(number, zeroUs int64) (arrival, error) {
	t.scheduled.Lock()
	defer t.scheduled.Unlock()
	if number < 0 || number >= int64(len(t.afterUs)) {
		return arrival{}, fmt.Errorf("the schedule has %d arrivals, and none of the number %d", len(t.afterUs), number)
	}
	return arrival{number, zeroUs + int64(t.afterUs[number])}, nil
}

// take returns the earliest arrival, where that is due within ahead, or rests until one is due (turnEarly before it is) and returns that,
// with the number -1 where the iteration or all sending ended before. The arrival that the VU brings is given to whoever asks, or rests,
// when it is the earliest.
func (t *turns) take(ctx context.Context, ended <-chan struct{}, own arrival, ahead time.Duration) arrival {
	t.started.Do(func() { go t.give() })
	me := &resting{given: make(chan arrival, 1)}
	t.mu.Lock()
	if next := t.earliest(own); until(next.us) <= ahead {
		if next != own {
			t.numbers[0] = own
			heap.Fix(&t.numbers, 0)
		}
		t.mu.Unlock()
		return next
	}
	t.resting = append(t.resting, me)
	heap.Push(&t.numbers, own)
	isFirst := t.numbers[0] == own
	t.mu.Unlock()
	if isFirst {
		select {
		case t.changed <- struct{}{}:
		default:
		}
	}
	select {
	case next := <-me.given:
		return next
	case <-ended:
	case <-ctx.Done():
	}
	return t.leave(me)
}

func (t *turns) earliest(own arrival) arrival {
	if len(t.numbers) > 0 && t.numbers[0].isBefore(own) {
		return t.numbers[0]
	}
	return own
}

// leave takes a VU out whose iteration is over, and the last of the arrivals with it. One that was given an arrival meanwhile keeps it.
func (t *turns) leave(me *resting) arrival {
	t.mu.Lock()
	defer t.mu.Unlock()
	at := slices.Index(t.resting, me)
	if at < 0 {
		return <-me.given
	}
	t.resting = slices.Delete(t.resting, at, at+1)
	last := 0
	for i := range t.numbers {
		if t.numbers.Less(last, i) {
			last = i
		}
	}
	heap.Remove(&t.numbers, last)
	return arrival{number: -1}
}

// give wakes the newest of the resting for each arrival, when it is due.
func (t *turns) give() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		timer.Reset(t.giveDue())
		select {
		case <-timer.C:
		case <-t.changed:
		}
	}
}

// giveDue gives what is due and says how long it is to the next.
func (t *turns) giveDue() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.numbers) > 0 {
		if wait := until(t.numbers[0].us) - turnEarly; wait > 0 {
			return wait
		}
		newest := len(t.resting) - 1
		t.resting[newest].given <- heap.Pop(&t.numbers).(arrival)
		t.resting[newest] = nil
		t.resting = t.resting[:newest]
	}
	return time.Hour
}
