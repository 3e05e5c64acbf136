//go:build unix

package sse

import (
	"os"
	"os/signal"
	"syscall"
)

// stopOnSignal lets the one who started k6 end the load in order: after SIGUSR1 no call leaves, those in flight end by themselves. The
// signals that k6 itself knows interrupt the calls of its VUs; with them nothing leaves any more either, and calls beside the VUs are
// waited for no longer than a drain.
func stopOnSignal(l *ledger) {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-asked
		l.endFor("the runner asked to stop")
	}()
}
