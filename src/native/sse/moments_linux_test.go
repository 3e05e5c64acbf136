package sse

import (
	"context"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// withFiles runs while descriptors below limit may be opened.
func withFiles(t *testing.T, limit uint64, run func()) {
	t.Helper()
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	lower := before
	lower.Cur = limit
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lower); err != nil {
		t.Fatal(err)
	}
	run()
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
}

func TestATimerThatCannotBeMadeIsReported(t *testing.T) {
	var come bool
	var err error
	withFiles(t, 0, func() { come, err = newBudget().waitUntil(context.Background(), inMs(2)) })
	if come || err == nil {
		t.Error("expected to be told why the moment does not come")
	}
}

func TestManyCallsThatAreDueAtOnceNeedFewDescriptors(t *testing.T) {
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	highest := 0
	for _, one := range open {
		n, _ := strconv.Atoi(one.Name())
		highest = max(highest, n)
	}
	withFiles(t, uint64(highest)+150, func() {
		us := inMs(300)
		var together sync.WaitGroup
		for range 500 {
			together.Go(func() {
				err := sleepUntil(us)
				if early := until(us); early > 0 || err != nil {
					t.Errorf("a moment came %v early, or not: %v", early, err)
				}
			})
		}
		together.Wait()
	})
}
