package sse

import (
	"fmt"
	"time"
)

// recentCalls holds the calls that ended in the last second, or the last ten calls if fewer did.
type recentCalls struct {
	calls  []recentCall
	failed int
}

type recentCall struct {
	at     time.Time
	failed bool
}

const (
	recentWindow = time.Second
	recentMin    = 10
)

func (r *recentCalls) add(at time.Time, failed bool) {
	r.calls = append(r.calls, recentCall{at, failed})
	if failed {
		r.failed++
	}
	for len(r.calls) > recentMin && at.Sub(r.calls[0].at) > recentWindow {
		if r.calls[0].failed {
			r.failed--
		}
		r.calls = r.calls[1:]
	}
}

// tooMany returns a message if the share of errors is above the bound that ends a run, else "".
func (r *recentCalls) tooMany(share float64) string {
	if len(r.calls) < recentMin || float64(r.failed) <= share*float64(len(r.calls)) {
		return ""
	}
	return fmt.Sprintf("stop_when.error_rate of the target file (%g) is exceeded: %d of the newest %d calls were errors", share, r.failed, len(r.calls))
}
