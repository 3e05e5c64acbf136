package sse

import (
	"context"
	"syscall"
	"testing"
)

func TestATimerThatCannotBeMadeIsReported(t *testing.T) {
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	none := before
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		t.Fatal(err)
	}
	come, err := newBudget().waitUntil(context.Background(), inMs(2))
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &before); err != nil {
		t.Fatal(err)
	}
	if come || err == nil {
		t.Error("expected to be told why the moment does not come")
	}
}
