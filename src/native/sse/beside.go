package sse

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/lib"
)

var errTestOver = errors.New("the test is over")

// beside makes calls that no VU waits for: their answers are printed, and the script does nothing else with them. A waiting VU costs a quarter
// of a megabyte and milliseconds to make, a call without a VU only a goroutine and its connection.
type beside struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	calls  sync.WaitGroup

	mu      sync.Mutex
	room    chan struct{}       // a place for each call that may be under way
	idle    []http.RoundTripper // the newest last
	ballast []byte              // never touched, so it takes no memory; Go counts it as in use and lets as much garbage pile up
}

// While Go collects garbage, readers of streams wait a tenth of a second and more on two cores. A call leaves some 35 kB of garbage, so Go would
// collect several times during a burst; the ballast delays that. The kernel has to clear the memory for garbage, which cost a tenth of a core
// at 750 calls/s on a virtual machine, so some of that memory is cleared before the first call.
const (
	ballastOfCall = 180_000 // with the memory in use, at most CALL_BYTES of workload/handover.ts
	ballastLeast  = 192 << 20
	ballastMost   = 1 << 30
	clearedMost   = 384 << 20 // clearing 256 MiB took a second there
)

// clearAhead makes the kernel clear this much memory and leaves it to Go as garbage.
func clearAhead(bytes int) {
	memory := make([]byte, bytes)
	for at := 0; at < bytes; at += os.Getpagesize() {
		memory[at] = 1
	}
	runtime.KeepAlive(memory)
	runtime.GC()
}

func newBeside() *beside {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &beside{ctx: ctx, cancel: cancel}
}

// allow sets how many calls may be under way at once; every VU calls it with the same number.
func (b *beside) allow(calls int) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if calls < 1 {
		return errors.New("sse.callsAtOnce: expected a number from 1 on")
	}
	if b.room == nil {
		b.room = make(chan struct{}, calls)
		b.ballast = make([]byte, min(max(ballastLeast, calls*ballastOfCall), ballastMost))
		clearAhead(min(len(b.ballast)*2/3, clearedMost))
	} else if cap(b.room) != calls {
		return errors.New("sse.callsAtOnce: the process was told another number already; all VUs are to say the same")
	}
	return nil
}

// transportFor lends a call its own transport with a VU's settings: the one given back last, which has a connection, or a new one. In a shared
// transport, a call that waits for its new connection may get another one that became free, so the time to connect would be unknown.
func (b *beside) transportFor(state *lib.State) http.RoundTripper {
	b.mu.Lock()
	defer b.mu.Unlock()
	if newest := len(b.idle) - 1; newest >= 0 {
		transport := b.idle[newest]
		b.idle = b.idle[:newest]
		return transport
	}
	if own, ok := state.Transport.(*http.Transport); ok {
		transport := own.Clone()
		stampReads(transport)
		return throughProxy(transport, statedProxy())
	}
	return state.Transport
}

func (b *beside) giveBack(transport http.RoundTripper) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.idle = append(b.idle, transport)
}

// statedProxy is the proxy of the target file. HTTP_PROXY does not suffice, because Go ignores it for loopback.
var statedProxy = sync.OnceValue(func() *url.URL {
	proxy, err := url.Parse(os.Getenv("FLOODGATE_PROXY"))
	if err != nil || proxy.Host == "" {
		return nil
	}
	return proxy
})

// throughProxy makes a transport use the proxy for every host. The caller is the only one that uses the transport.
func throughProxy(transport http.RoundTripper, proxy *url.URL) http.RoundTripper {
	if own, ok := transport.(*http.Transport); ok && proxy != nil {
		own.Proxy = http.ProxyURL(proxy)
	}
	return transport
}

// kind checks parameters once for all calls of begin that share them.
func (m *ModuleInstance) kind(params sobek.Value) (*kind, error) {
	k, err := kindOf(m.vu.Runtime(), params)
	if err != nil {
		return nil, fmt.Errorf("sse.kind: %w", err)
	}
	return k, nil
}

// begin makes an exchange at its intended moment, or at once if that is past, and prints the result as printCall does. It returns true when the
// call has room among those that may be under way; false if the iteration or all sending ended before.
func (m *ModuleInstance) begin(url, of, headers, body sobek.Value, place string, intendedUs float64) (bool, error) {
	state, b := m.vu.State(), m.beside
	if b.room == nil {
		return false, errors.New("sse.begin: say how many calls may be under way by sse.callsAtOnce")
	}
	var k *kind
	if of != nil {
		k, _ = of.Export().(*kind)
	}
	if k == nil {
		return false, errors.New("sse.begin: the second argument is to be what sse.kind gave")
	}
	x, err := m.exchange(k, newClient(nil), url, headers, body)
	if err != nil {
		return false, fmt.Errorf("sse.begin: %w", err)
	}
	m.settled()
	m.begins = true
	select {
	case b.room <- struct{}{}:
	case <-m.budget.sending.Done():
		return false, m.budget.refuse(nil)
	case <-m.vu.Context().Done():
		return false, m.budget.refuse(nil)
	}
	b.calls.Add(1)
	go func() {
		defer b.calls.Done()
		defer func() { <-b.room }()
		come, err := m.budget.waitUntil(b.ctx, int64(intendedUs))
		if err != nil {
			m.budget.end(&stop{"failed", "the timer that says when calls are due has failed: " + err.Error()})
		}
		if !come || err != nil {
			_ = m.budget.refuse(nil)
			return
		}
		x.transport = b.transportFor(state)
		defer b.giveBack(x.transport)
		x.run(b.ctx)
		m.metrics.push(state, x)
		if b.ctx.Err() != nil || !x.granted { // cut off by the end of the test (counted as in flight), or never sent
			return
		}
		if err := m.printer.write(x.line(place, int64(intendedUs)+x.held.Microseconds(), false)); err != nil {
			m.budget.end(&stop{"failed", "what came of calls cannot be written: " + err.Error()})
		}
		m.budget.settled()
	}()
	return true, nil
}

// finish waits until all calls of begin are over, at most limitMs, and at most drainMs after sending has ended; then it breaks off the rest.
// It must be called in teardown, after which k6 takes no samples.
func (m *ModuleInstance) finish(limitMs, drainMs float64) {
	over := make(chan struct{})
	go func() {
		m.beside.calls.Wait()
		close(over)
	}()
	ctx, cancel := context.WithTimeout(m.vu.Context(), inMilliseconds(limitMs))
	defer cancel()
	select {
	case <-over:
	case <-ctx.Done():
	case <-m.budget.sending.Done():
		_ = rest(ctx, time.After(inMilliseconds(drainMs)), over)
	}
	m.beside.cancel(errTestOver)
	<-over
}
