package sse

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

func inMs(ms int) int64 {
	return unixMicro(time.Now().Add(time.Duration(ms) * time.Millisecond))
}

// restIn lets a VU rest and says what it was given.
func restIn(t *turns, ctx context.Context, own arrival) <-chan int64 {
	given := make(chan int64, 1)
	go func() { given <- t.take(ctx, nil, own, turnEarly).number }()
	return given
}

func (t *turns) atRest() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.resting)
}

func TestTheVUThatCameToRestLastPlaysTheNextArrival(t *testing.T) {
	turns, ctx := &turns{}, context.Background()
	var given []<-chan int64
	for n := range 3 {
		given = append(given, restIn(turns, ctx, arrival{int64(n), inMs(300 + 100*n)}))
		eventually(t, func() bool { return turns.atRest() == n+1 })
	}
	for n, at := range []int{2, 1, 0} {
		select {
		case number := <-given[at]:
			expect(t, "number", number, int64(n))
		case <-time.After(10 * time.Second):
			t.Fatalf("VU %d was given nothing", at)
		}
	}
}

func TestEveryArrivalIsPlayedOnceAndNoneBeforeItsMoment(t *testing.T) {
	const vus, all = 40, 400
	turns := &turns{}
	zero := inMs(50)
	moment := func(n int64) int64 { return zero + 500*n }
	var mu sync.Mutex
	var next int64
	var played []int64
	var together sync.WaitGroup
	for range vus {
		together.Add(1)
		go func() {
			defer together.Done()
			for {
				mu.Lock()
				n := next
				next++
				mu.Unlock()
				if n >= all {
					return
				}
				number := turns.take(context.Background(), nil, arrival{n, moment(n)}, turnEarly).number
				if early := moment(number) - unixMicro(time.Now()); early > turnEarly.Microseconds() {
					t.Errorf("arrival %d was given %d us before its moment", number, early)
				}
				mu.Lock()
				played = append(played, number)
				mu.Unlock()
			}
		}()
	}
	together.Wait()
	slices.Sort(played)
	for n := range int64(all) {
		if played[n] != n {
			t.Fatalf("expected each arrival once, got %v", played)
		}
	}
	expect(t, "at rest", turns.atRest(), 0)
}

func TestAnArrivalThatIsDueIsPlayedAtOnce(t *testing.T) {
	turns := &turns{}
	resting := restIn(turns, t.Context(), arrival{7, inMs(60_000)})
	eventually(t, func() bool { return turns.atRest() == 1 })
	expect(t, "number", turns.take(t.Context(), nil, arrival{3, inMs(-5)}, turnEarly).number, 3)
	select {
	case number := <-resting:
		t.Errorf("expected the other to rest on, it was given %d", number)
	default:
	}
}

func TestAVUThatIsAwakeTakesTheEarliestArrivalAheadOfItsMoment(t *testing.T) {
	const ahead = 10 * time.Second
	turns := &turns{}
	var resting []<-chan int64
	for n := range int64(2) {
		resting = append(resting, restIn(turns, t.Context(), arrival{n, inMs(5_000 + int(n))}))
		eventually(t, func() bool { return turns.atRest() == int(n)+1 })
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for n, brought := range []int64{2, 3, 4} {
		expect(t, "number", turns.take(ctx, nil, arrival{brought, inMs(60_000)}, ahead).number, []int64{0, 1, -1}[n])
		if n == 1 {
			cancel() // what is left is too far ahead, so the third rests until its iteration ends
		}
	}
	expect(t, "at rest", turns.atRest(), 2)
	expect(t, "left to play", len(turns.numbers), 2)
	for at, given := range resting {
		select {
		case number := <-given:
			t.Errorf("expected VU %d to rest on, it was given %d", at, number)
		default:
		}
	}
}

func TestRestEndsWithTheIterationAndWithAllSending(t *testing.T) {
	turns := &turns{}
	ctx, cancel := context.WithCancel(context.Background())
	one := restIn(turns, ctx, arrival{0, inMs(300)})
	eventually(t, func() bool { return turns.atRest() == 1 })
	other := restIn(turns, context.Background(), arrival{1, inMs(60_000)})
	eventually(t, func() bool { return turns.atRest() == 2 })
	cancel()
	expect(t, "given to the one that left", <-one, -1)
	expect(t, "given to the other", <-other, 0)
	ended := make(chan struct{})
	close(ended)
	expect(t, "given after the end", turns.take(context.Background(), ended, arrival{2, inMs(60_000)}, turnEarly).number, -1)
	expect(t, "at rest", turns.atRest(), 0)
	expect(t, "left to play", len(turns.numbers), 0)
}

func TestTheScheduleIsAskedForOnce(t *testing.T) {
	root := NewRootModule()
	for _, times := range []int64{1, 0} {
		v := newVUOf(t, root)
		v.run(`var asked = 0; sse.arrivals(() => { asked++; return [0, 1.5, 2e6] })`)
		v.run(fmt.Sprintf(`const n = sse.turn(1, %d); if (n !== 1 || sse.turnUs() !== %d) throw new Error(n + " " + sse.turnUs())`, 7_000, 7_001))
		for script, text := range map[string]string{
			`sse.turn(3, 0)`:   "3 arrivals, and none of the number 3",
			`sse.turn(-1, 0)`:  "none of the number -1",
			`sse.turn(0, NaN)`: "the zero is to be",
			`sse.arrivals(5)`:  "takes a function",
		} {
			if message := v.throws(script); !strings.Contains(message, text) {
				t.Errorf("%s: expected %q, got %q", script, text, message)
			}
		}
		expect(t, "times that a VU was asked", v.VU.Runtime().Get("asked").ToInteger(), times)
	}
}

func TestAnArrivalThatWasLeftForAnEarlierOneIsGivenToWhoRests(t *testing.T) {
	turns := &turns{}
	rests := restIn(turns, context.Background(), arrival{0, inMs(400)})
	eventually(t, func() bool { return turns.atRest() == 1 })
	expect(t, "taken ahead", turns.take(context.Background(), nil, arrival{1, inMs(600)}, time.Second).number, 0)
	select {
	case number := <-rests:
		expect(t, "given", number, 1)
	case <-time.After(10 * time.Second):
		t.Error("the one that rests was given nothing")
	}
}
