package sse

import (
	"context"
	"time"
)

// anchor ties the monotonic clock to the wall clock once for the process: a step of the wall clock moves no moment of a run.
var anchor = time.Now()

func unixMicro(t time.Time) int64 {
	return anchor.UnixMicro() + t.Sub(anchor).Microseconds()
}

// until is how long it is to a moment that a script gives in microseconds since 1970.
func until(us int64) time.Duration {
	return time.Duration(us-anchor.UnixMicro())*time.Microsecond - time.Since(anchor)
}

// waitUntil blocks until the moment and returns true, or until the end of the iteration or of all sending and returns false.
func (b *budget) waitUntil(ctx context.Context, us int64) (bool, error) {
	if until(us) <= 0 {
		return true, nil
	}
	select {
	case err := <-b.alarm.at(us):
		return err == nil, err
	case <-b.ended:
	case <-ctx.Done():
	}
	return false, nil
}
