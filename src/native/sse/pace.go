package sse

import (
	"fmt"
	"math"
	"time"
)

// Calls leave at a little less than the permitted rate, because a network bunches them on their way, with a burst of a twentieth of a
// second's calls (at least one). src/workload/lease.ts has the same figures.
const (
	rateShare  = 0.95
	burstShare = 0.05
)

// pace spaces calls as the generic cell rate algorithm does: due is when the next call is owed its turn, and a call may come before that
// by as much as the burst takes. The zero value lets everything go.
type pace struct {
	every time.Duration
	early time.Duration
	due   time.Time
}

func newPace(perS float64) pace {
	if perS == 0 {
		return pace{}
	}
	every := time.Duration(math.Ceil(float64(time.Second) / (rateShare * perS)))
	burst := max(1, math.Floor(burstShare*perS))
	return pace{every: every, early: time.Duration(burst-1) * every}
}

// take takes the turn now and returns 0, or says how long to wait before asking again.
func (p *pace) take(now time.Time) time.Duration {
	if p.every == 0 {
		return 0
	}
	if wait := p.due.Add(-p.early).Sub(now); wait > 0 {
		return wait
	}
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(p.every)
	return 0
}

// openStreams adds up how long streams were open, without remembering each of them.
type openStreams struct {
	epoch  time.Time
	ended  time.Duration
	count  int
	starts time.Duration // sum of the moments when those that are open began, since epoch
}

func (s *openStreams) open(at time.Time) {
	if s.epoch.IsZero() {
		s.epoch = at
	}
	s.count++
	s.starts += at.Sub(s.epoch)
}

func (s *openStreams) close(openedAt, at time.Time) {
	s.count--
	s.starts -= openedAt.Sub(s.epoch)
	s.ended += at.Sub(openedAt)
}

func (s *openStreams) total(now time.Time) time.Duration {
	return s.ended + time.Duration(s.count)*now.Sub(s.epoch) - s.starts
}

// recentCalls are the calls that ended in the last second, or the last ten where those are fewer.
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

// tooMany says that the share of errors is over what ends a run, or gives "".
func (r *recentCalls) tooMany(share float64) string {
	if len(r.calls) < recentMin || float64(r.failed) <= share*float64(len(r.calls)) {
		return ""
	}
	return fmt.Sprintf("stop_when.error_rate of the target file (%g) is exceeded: %d of the newest %d calls were errors", share, r.failed, len(r.calls))
}
