package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.k6.io/k6/v2/lib"

	"floodgate/native/eventstream"
)

const (
	maxEventBytes   = 2 << 20 // an event larger than this is a fault of the server, not load
	maxRefusalBytes = 1 << 20
)

// maxStreamBytes bounds a whole stream: one that goes on beyond it is left, which is no end that the server made.
var maxStreamBytes = 64 << 20

var errStreamTooLarge = errors.New("answer-too-large")

// readBuffers lends out what a stream is read into: thousands of VUs each keep one only while they read.
var readBuffers = sync.Pool{New: func() any { buffer := make([]byte, 8<<10); return &buffer }}

// gapsKept bounds what a stream without end takes of memory, and of the history.
const gapsKept = 10_000

// exchange is one request and all that came of it. Times are durations since it was handed to the transport, on the monotonic clock, so
// that a step of the wall clock cannot make an event come before its request.
type exchange struct {
	request *request
	client  *client
	state   *lib.State
	ledger  *ledger
	// nil: the VU's own, and made of request
	transport http.RoundTripper
	out       *http.Request

	granted   bool          // the ledger let it leave
	held      time.Duration // it waited for the ledger's turn
	startedAt time.Time     // handed to the transport; zero when it was not
	wire      wire
	timeouts  *timeouts
	end       end
	err       error
	status    int
	header    http.Header
	body      string // of a refusal
	opened    bool   // a stream began
	events    int
	late      int // events after the terminal one, counted in events too
	names     []string
	first     time.Duration // the first event
	last      time.Duration // the newest event
	done      time.Duration
	gaps      []time.Duration
}

// wire is what the transport said of the connection, in nanoseconds since startedAt; 0 where it did not happen. Its own goroutines say it.
type wire struct {
	connected atomic.Int64 // a connection was made; 0 where one was reused
	sent      atomic.Int64 // the head was put into the buffer, just before it goes out
	head      atomic.Int64 // the first byte of the answer came
	conn      atomic.Pointer[net.Conn]
}

func (w *wire) trace(startedAt time.Time) *httptrace.ClientTrace {
	now := func() int64 { return max(1, int64(time.Since(startedAt))) }
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			w.connected.Store(0)
			w.conn.Store(&info.Conn)
			if !info.Reused {
				w.connected.Store(now())
			}
		},
		WroteHeaders:         func() { w.sent.Store(now()) },
		GotFirstResponseByte: func() { w.head.Store(max(1, int64(w.collected().lastRead().Sub(startedAt)))) },
	}
}

// collected is the connection as a collector reads it since an earlier stream, or nil.
func (w *wire) collected() *collected {
	if conn := w.conn.Load(); conn != nil {
		return collectedOf(*conn)
	}
	return nil
}

// collect hands the connection to a collector, where it can be.
func (w *wire) collect() *collected {
	if conn := w.conn.Load(); conn != nil {
		return collect(*conn)
	}
	return nil
}

// left tells that the target may have seen the request.
func (w *wire) left() bool {
	return w.sent.Load() != 0
}

// run makes the exchange and always sets end. parent is the context of the iteration, or that of all calls beside the VUs.
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
	out := x.out
	if out == nil {
		var err error
		if out, err = x.request.http(); err != nil {
			x.client.thrown = fmt.Errorf("sse.open: %w", err)
			return
		}
	}
	asked := time.Now()
	err := x.ledger.take(ctx, x.request.charges, x.request.isStream())
	if x.ledger.mayHold(x.request.charges) {
		x.held = time.Since(asked)
	}
	if err != nil {
		// Also where the test ended while it waited: nobody saw it, so it is no call.
		x.end, x.err = endNotSent, err
		if !errors.Is(err, errUnsent) {
			x.err = fmt.Errorf("interrupted: %w", err)
		}
		return
	}
	x.granted = true
	defer func() { x.ledger.came(x.request.charges, x.outcome()) }()
	x.startedAt = time.Now()
	ctx = httptrace.WithClientTrace(ctx, x.wire.trace(x.startedAt))
	x.timeouts = newTimeouts(cancel, x.request, x.startedAt)
	defer x.timeouts.stop()
	transport := x.transport
	if transport == nil {
		transport = throughProxy(x.state.Transport, statedProxy())
	}
	answer, err := transport.RoundTrip(out.WithContext(ctx))
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
	x.ledger.spoke(answer.ProtoMajor)
	if x.request.jar != nil {
		x.request.jar.SetCookies(out.URL, answer.Cookies())
	}
	x.timeouts.watchBody()
	if answer.StatusCode != http.StatusOK || !isEventStream(answer.Header.Get("Content-Type")) || hasCoding(answer.Header) {
		x.timeouts.answered()
		x.readRefusal(ctx, answer)
		return
	}
	x.opened = true
	x.ledger.opened(x.startedAt)
	defer func() { x.ledger.closed(x.startedAt, time.Now()) }()
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

// hasCoding says that the body is not sent as it is: codingOf of src/contract/envelopes.ts. Nobody asked for that, and nobody reads it.
func hasCoding(header http.Header) bool {
	for _, value := range header["Content-Encoding"] {
		for part := range strings.SplitSeq(value, ",") {
			if name := strings.TrimSpace(part); name != "" && !strings.EqualFold(name, "identity") {
				return true
			}
		}
	}
	return false
}

func (x *exchange) readStream(ctx context.Context, body io.Reader) {
	parser := eventstream.Parser{KeepData: x.client.listens("event"), MaxBytes: maxEventBytes}
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	collected := x.wire.collected()
	isHeld := false
	defer func() { collected.hold(false) }()
	var readAt time.Time
	take := func(e eventstream.Event) bool { return x.event(e, readAt) }
	total := 0
	for !x.client.stopped() {
		n, err := body.Read(*buffer)
		readAt = collected.lastRead()
		if n > 0 {
			x.timeouts.read(readAt)
			if parseErr := parser.Feed((*buffer)[:n], take); parseErr != nil {
				x.over(endClosed, parseErr)
				return
			}
			if total += n; total > maxStreamBytes {
				x.over(endClosed, errStreamTooLarge)
				return
			}
		}
		if err != nil && !x.client.stopped() {
			x.failed(ctx, err)
			return
		}
		if !isHeld && x.mayWait() {
			collected = x.wire.collect()
			isHeld = collected != nil
			x.timeouts.watch(collected)
		}
		if x.end != "" {
			collected.hold(false)
		}
	}
	x.over(endClosed, nil)
}

// mayWait says that nobody needs the events of the stream as soon as they come: the first has come, none has a handler, and it is not left
// after one of them.
func (x *exchange) mayWait() bool {
	return x.events > 0 && x.end == "" && x.request.closeAfterEvents == 0 && !x.client.listens("event")
}

// event takes one event at the time its last byte came; false stops the reading. On a connection that nobody collects yet the first is timed
// when it is read, so the second may have come to this machine before that.
func (x *exchange) event(e eventstream.Event, now time.Time) bool {
	at := max(now.Sub(x.startedAt), x.last)
	x.events++
	if x.events == 1 {
		x.first = at
		x.timeouts.answered()
	} else if len(x.gaps) < gapsKept {
		x.gaps = append(x.gaps, at-x.last)
	}
	x.last = at
	x.called(e.Name)
	if x.end != "" {
		x.late++
	} else if ending := x.request.ending(e.Name); ending != "" {
		x.end, x.done = ending, at
		x.timeouts.grace()
	}
	if x.client.listens("event") {
		x.timeouts.handling(func() { x.client.emitEvent(e) })
	}
	if most := x.request.closeAfterEvents; most > 0 && x.events >= most {
		x.client.closed = true
	}
	return !x.client.stopped()
}

// called notes the distinct names of events, in the order of their first coming. A stream has a handful.
func (x *exchange) called(name []byte) {
	if len(name) == 0 {
		name = []byte("message")
	}
	if x.knows(string(name)) || len(x.names) >= namesKept {
		return
	}
	if shown := foreignName(eventstream.Text(name)); !x.knows(shown) {
		x.names = append(x.names, shown)
	}
}

func (x *exchange) knows(name string) bool {
	return slices.Contains(x.names, name)
}

// failed ends the exchange for what a round trip or a read said. After a terminal event only a break that we did not make is worth
// telling; the end stays what the terminal event said.
func (x *exchange) failed(ctx context.Context, err error) {
	switch {
	case errors.Is(err, io.EOF) && x.status != 0 && x.end == "" && x.opened && x.request.mustEnd && x.events > 0:
		x.over(endTruncated, errNoLastEvent)
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
	x.overAt(time.Now(), ending, err)
}

func (x *exchange) overAt(at time.Time, ending end, err error) {
	if x.end == "" {
		x.end, x.done = ending, at.Sub(x.startedAt)
	}
	if x.err == nil {
		x.err = err
	}
}

// readRefusal reads an answer that is no event stream. Only a refusal read whole (or up to the bound) is refused; one that was cut says
// how it was cut, because a client cannot rely on half an answer.
func (x *exchange) readRefusal(ctx context.Context, answer *http.Response) {
	collected := x.wire.collected()
	defer func() { x.overAt(collected.lastRead(), endRefused, nil) }()
	if answer.StatusCode == http.StatusSwitchingProtocols { // its "body" is the connection
		return
	}
	var body []byte
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	for len(body) < maxRefusalBytes {
		n, err := answer.Body.Read(*buffer)
		x.timeouts.read(collected.lastRead())
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
