//go:build unix

package sse

import (
	"os"
	"os/signal"
	"syscall"
)

// stopOnSignal lets the one who started k6 end the load in order: after SIGUSR1 no call leaves, those in flight end by themselves. (The
// signals that k6 itself knows interrupt calls, and nobody then learns what came of them.)
func stopOnSignal(l *ledger) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1)
	go func() {
		<-asked
		l.mu.Lock()
		defer l.mu.Unlock()
		l.stop("the runner asked to stop")
	}()
}
