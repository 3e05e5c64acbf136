package sse

import (
	"context"
	"sync"
	"testing"
	"time"
)

func TestEveryMomentComesAndNoneEarly(t *testing.T) {
	const all = 2_000
	b := newBudget()
	var together sync.WaitGroup
	zero := inMs(20)
	for n := range all {
		us := zero + int64(n*7919%all)*100
		together.Go(func() {
			come, err := b.waitUntil(context.Background(), us)
			if early := until(us); early > 0 || !come || err != nil {
				t.Errorf("a moment came %v early, or not: %v", early, err)
			}
		})
	}
	together.Wait()
}

func TestAMomentThatIsPastComesAtOnce(t *testing.T) {
	come, err := newBudget().waitUntil(context.Background(), inMs(-1_000))
	if !come || err != nil {
		t.Errorf("a past moment did not come: %v", err)
	}
}

func TestAMomentIsNotWaitedForWhenTheWaitIsOver(t *testing.T) {
	ended := newBudget()
	ended.end(&stop{"asked", "over"})
	over, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	for what, come := range map[string]func() (bool, error){
		"sending has ended": func() (bool, error) { return ended.waitUntil(context.Background(), inMs(3_600_000)) },
		"iteration is over": func() (bool, error) { return newBudget().waitUntil(over, inMs(3_600_000)) },
	} {
		if is, err := come(); is || err != nil {
			t.Errorf("%s: expected no moment and no error, got %v, %v", what, is, err)
		}
	}
}
