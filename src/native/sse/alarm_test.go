package sse

import (
	"sync"
	"testing"
	"time"
)

func TestEveryMomentComesAndNoneEarly(t *testing.T) {
	const all = 2_000
	var a alarm
	var together sync.WaitGroup
	zero := inMs(20)
	for n := range all {
		us := zero + int64(n*7919%all)*100 // in no order, so that the timer is set to an earlier moment again and again
		come := a.at(us)
		together.Add(1)
		go func() {
			defer together.Done()
			select {
			case err := <-come:
				if early := until(us); early > 0 || err != nil {
					t.Errorf("a moment came %v early, or failed: %v", early, err)
				}
			case <-time.After(20 * time.Second):
				t.Error("a moment did not come")
			}
		}()
	}
	together.Wait()
}

// comes fails the test where nothing comes of what at returned.
func comes(t *testing.T, come <-chan error, otherwise string) {
	t.Helper()
	select {
	case err := <-come:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal(otherwise)
	}
}

func TestAnEarlierMomentDoesNotWaitForTheOneThatWasSetBefore(t *testing.T) {
	var a alarm
	a.at(inMs(3_600_000))
	comes(t, a.at(inMs(5)), "the earlier moment waits for the later one")
}

func TestAMomentThatIsPastComesAtOnce(t *testing.T) {
	var a alarm
	comes(t, a.at(inMs(-1_000)), "a past moment did not come")
}
