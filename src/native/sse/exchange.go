package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/lib"

	"floodgate/native/eventstream"
)

const (
	maxEventBytes   = 8 << 20 // an event larger than this is a fault of the server, not load
	maxRefusalBytes = 1 << 20
)

// readBuffers lends out what a stream is read into: thousands of VUs each keep one only while they read.
var readBuffers = sync.Pool{New: func() any { buffer := make([]byte, 8<<10); return &buffer }}

// exchange is one request and all that came of it. Times are durations since sent, on the monotonic clock, so that a step of the wall
// clock cannot make an event come before its request.
type exchange struct {
	request *request
	client  *client
	state   *lib.State
	ledger  *ledger

	granted  bool        // the ledger let it leave
	left     atomic.Bool // its head was written
	timeouts *timeouts
	end      end
	err      error
	sentAt   time.Time // zero when nothing was sent
	status   int
	header   http.Header
	body     string // of a refusal
	opened   bool   // a stream began
	events   int
	late     int // events after the terminal one, counted in events too
	first    time.Duration
	done     time.Duration
	gaps     []gap
}

type gap struct {
	at   time.Duration
	wide time.Duration
}

// run makes the exchange and always sets end. parent is the context of the iteration.
func (x *exchange) run(parent context.Context) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	if x.client.stopped() { // by the setup function: nothing to send
		x.end = endClosed
		return
	}
	if limit := x.state.RPSLimit; limit != nil {
		if err := limit.Wait(ctx); err != nil {
			x.end, x.err = endNotSent, fmt.Errorf("interrupted: %w", err)
			return
		}
	}
	out, err := x.request.http()
	if err != nil {
		x.client.thrown = fmt.Errorf("sse.open: %w", err)
		return
	}
	if err := x.ledger.take(ctx, x.request.charges, x.request.isStream()); err != nil {
		// Also where the test ended while it waited: nobody saw it, so it is no call.
		x.end, x.err = endNotSent, err
		if !errors.Is(err, errUnsent) {
			x.err = fmt.Errorf("interrupted: %w", err)
		}
		return
	}
	x.granted = true
	defer func() { x.ledger.came(x.request.charges, x.outcome()) }()
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { x.left.Store(true) }})
	x.sentAt = time.Now()
	x.timeouts = newTimeouts(cancel, x.request, x.sentAt)
	defer x.timeouts.stop()
	answer, err := x.state.Transport.RoundTrip(out.WithContext(ctx))
	if err != nil {
		x.failed(ctx, err)
		if x.end == endTruncated { // cut within the head: there is no answer to be a part of
			x.end = endReset
		}
	} else {
		x.receive(ctx, out, answer)
	}
	if x.err != nil && !x.client.stopped() {
		x.client.emitError(x.err)
	}
}

func (x *exchange) receive(ctx context.Context, out *http.Request, answer *http.Response) {
	// Closing after the end of the body leaves the connection to the next exchange; closing earlier gives it up.
	defer func() { _ = answer.Body.Close() }()
	x.status, x.header = answer.StatusCode, answer.Header
	if x.request.jar != nil {
		x.request.jar.SetCookies(out.URL, answer.Cookies())
	}
	x.timeouts.watchBody()
	if answer.StatusCode != http.StatusOK || !isEventStream(answer.Header.Get("Content-Type")) {
		x.timeouts.answered()
		x.readRefusal(ctx, answer)
		return
	}
	x.opened = true
	x.ledger.opened(x.sentAt)
	defer func() { x.ledger.closed(x.sentAt, time.Now()) }()
	if x.client.listens("open") {
		x.timeouts.handling(func() { x.client.emit("open") })
	}
	x.readStream(ctx, answer.Body)
}

func isEventStream(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil { // a malformed parameter does not make it another type
		media, _, _ = strings.Cut(contentType, ";")
	}
	return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

func (x *exchange) readStream(ctx context.Context, body io.Reader) {
	parser := eventstream.Parser{KeepData: x.client.listens("event"), MaxBytes: maxEventBytes}
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	var readAt time.Time
	take := func(e eventstream.Event) bool { return x.event(e, readAt) }
	for !x.client.stopped() {
		n, err := body.Read(*buffer)
		readAt = time.Now()
		if n > 0 {
			x.timeouts.read(readAt)
			if parseErr := parser.Feed((*buffer)[:n], take); parseErr != nil {
				x.over(endClosed, parseErr)
				return
			}
		}
		if err != nil && !x.client.stopped() {
			x.failed(ctx, err)
			return
		}
	}
	x.over(endClosed, nil)
}

// event takes one event at the time its last byte was read; false stops the reading.
func (x *exchange) event(e eventstream.Event, now time.Time) bool {
	at := now.Sub(x.sentAt)
	x.events++
	if x.events == 1 {
		x.first = at
		x.timeouts.answered()
	} else {
		x.gaps = append(x.gaps, gap{at, at - x.lastEvent()})
	}
	if x.end != "" {
		x.late++
	} else if ending := x.request.ending(e.Name); ending != "" {
		x.end, x.done = ending, at
		x.timeouts.grace()
	}
	if x.client.listens("event") {
		x.timeouts.handling(func() { x.client.emitEvent(e) })
	}
	return !x.client.stopped()
}

func (x *exchange) lastEvent() time.Duration {
	if len(x.gaps) > 0 {
		return x.gaps[len(x.gaps)-1].at
	}
	return x.first
}

// failed ends the exchange for what a round trip or a read said. After a terminal event only a break that we did not make is worth
// telling; the end stays what the terminal event said.
func (x *exchange) failed(ctx context.Context, err error) {
	switch {
	case errors.Is(err, io.EOF) && x.status != 0:
		x.over(endEOF, nil)
	case x.end == "":
		x.over(classify(ctx, err))
	case context.Cause(ctx) == nil:
		x.err = fmt.Errorf("after the terminal event: %w", err)
	}
}

// over sets the end, unless a terminal event has set it already.
func (x *exchange) over(ending end, err error) {
	if x.end == "" {
		x.end, x.done = ending, time.Since(x.sentAt)
	}
	if x.err == nil {
		x.err = err
	}
}

// readRefusal reads an answer that is no event stream. Only a refusal read whole (or up to the bound) is refused; one that was cut says
// how it was cut, because a client cannot rely on half an answer.
func (x *exchange) readRefusal(ctx context.Context, answer *http.Response) {
	defer func() { x.over(endRefused, nil) }()
	if answer.StatusCode == http.StatusSwitchingProtocols { // its "body" is the connection
		return
	}
	var body []byte
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	for len(body) < maxRefusalBytes {
		n, err := answer.Body.Read(*buffer)
		x.timeouts.read(time.Now())
		body = append(body, (*buffer)[:min(n, maxRefusalBytes-len(body))]...)
		if err != nil {
			if !errors.Is(err, io.EOF) {
				x.failed(ctx, err)
			}
			break
		}
	}
	x.body = eventstream.Text(body)
}

// response is what open() returns to the script.
func (x *exchange) response(rt *sobek.Runtime) *sobek.Object {
	headers := rt.NewObject()
	for name, values := range x.header {
		_ = headers.Set(name, strings.Join(values, ", "))
	}
	text := ""
	if x.err != nil {
		text = x.err.Error()
	}
	out := rt.NewObject()
	for _, field := range []struct {
		name  string
		value any
	}{
		{"url", x.request.url.URL}, {"status", x.status}, {"headers", headers}, {"error", text}, {"body", x.body},
		{"ended", string(x.end)}, {"events", x.events}, {"late", x.late},
		{"sent_us", x.wallClock(!x.sentAt.IsZero(), 0)},
		{"first_us", x.wallClock(x.events > 0, x.first)},
		{"done_us", x.wallClock(!x.sentAt.IsZero(), x.done)},
	} {
		// Set fails on a frozen object or a throwing setter only, and this object is new.
		_ = out.Set(field.name, field.value)
	}
	return out
}

// wallClock gives microseconds since 1970, or null for what did not happen.
func (x *exchange) wallClock(happened bool, since time.Duration) any {
	if !happened {
		return nil
	}
	return x.sentAt.UnixMicro() + since.Microseconds()
}
