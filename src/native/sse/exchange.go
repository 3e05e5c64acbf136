package sse

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	gapsKept        = 10_000 // bounds the memory and history of an endless stream
)

// maxStreamBytes bounds a whole stream; a longer one is closed.
var maxStreamBytes = 64 << 20

var errStreamTooLarge = errors.New("answer-too-large")

// readBuffers lends out the buffers that streams are read into, so that each of thousands of VUs holds one only while it reads.
var readBuffers = sync.Pool{New: func() any { buffer := make([]byte, 8<<10); return &buffer }}

// exchange is one request and its result. Times are durations since the request was handed to the transport, on the monotonic clock.
type exchange struct {
	request   *request
	client    *client
	state     *lib.State
	budget    *budget
	transport http.RoundTripper

	granted   bool          // the budget let it leave
	held      time.Duration // how long it waited for the budget's turn
	startedAt time.Time     // when it was handed to the transport; zero if it was not
	wire      wire
	cancel    context.CancelCauseFunc
	toFirst   *time.Timer // ends it if no first event comes in time
	toNext    *time.Timer // ends it if no byte comes in time
	end       end
	err       error
	header    http.Header
	record                  // the result so far
	first     time.Duration // time of the first event
	last      time.Duration // time of the newest event
	done      time.Duration
	gaps      []time.Duration
}

// wire holds the transport's events in nanoseconds since startedAt; 0 if an event did not happen. The transport's goroutines write it.
type wire struct {
	connected atomic.Int64 // a connection was made; 0 if one was reused
	sent      atomic.Int64 // the head was put into the buffer, just before it goes out, so the target may see it from now on
	head      atomic.Int64 // the first byte of the answer came
	conn      atomic.Pointer[net.Conn]
}

func (w *wire) trace(startedAt time.Time) *httptrace.ClientTrace {
	since := func(at time.Time) int64 { return max(1, int64(at.Sub(startedAt))) }
	return &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			w.connected.Store(0)
			w.conn.Store(&info.Conn)
			if !info.Reused {
				w.connected.Store(since(time.Now()))
			}
		},
		WroteHeaders:         func() { w.sent.Store(since(time.Now())) },
		GotFirstResponseByte: func() { w.head.Store(since(w.readAt())) },
	}
}

func (w *wire) readAt() time.Time {
	if conn := w.conn.Load(); conn != nil {
		return readAt(*conn)
	}
	return time.Now()
}

// run makes the exchange and always sets end. parent is the context of the iteration, or of all calls that no VU waits for.
func (x *exchange) run(parent context.Context) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	if x.client.stopped() { // the setup function closed it: nothing to send
		x.end = endClosed
		return
	}
	if limit := x.state.RPSLimit; limit != nil {
		if err := limit.Wait(ctx); err != nil {
			x.end, x.err = endNotSent, fmt.Errorf("interrupted: %w", err)
			return
		}
	}
	asked := time.Now()
	err := x.budget.take(ctx, x.request.Charges, x.request.isStream())
	if x.budget.mayHold(x.request.Charges) {
		x.held = time.Since(asked)
	}
	if err != nil {
		// Also if the test ended while it waited: it was not sent, so it is no call.
		x.end, x.err = endNotSent, err
		if _, isStop := as[*stop](err); !isStop {
			x.err = fmt.Errorf("interrupted: %w", err)
		}
		return
	}
	x.granted = true
	defer func() { x.budget.callEnded(time.Now(), x.request.Charges, x.outcome()) }()
	x.startedAt = time.Now()
	ctx = httptrace.WithClientTrace(ctx, x.wire.trace(x.startedAt))
	x.cancel = cancel
	defer x.within(x.request.Timeout, "the exchange did not end").Stop()
	x.toFirst = x.within(x.request.FirstEventTimeout, "no first event")
	defer x.toFirst.Stop()
	answer, err := x.transport.RoundTrip(x.request.out.WithContext(ctx))
	if err != nil {
		x.failed(ctx, err)
		if x.end == endTruncated { // cut within the head: there is no answer that could be truncated
			x.end = endReset
		}
	} else {
		x.receive(ctx, answer)
	}
	if x.err != nil && !x.client.stopped() && x.client.listens("error") {
		// The script gets a Go error, whose error() returns its text, as from the community's extension.
		x.client.emit("error", x.client.rt.ToValue(x.err))
	}
}

// graceAfterTerminal is how long a stream is read on after its terminal event, to detect events after it, which are errors.
// It is shorter than in src/client/send-request.ts, because a waiting stream occupies a VU or a place of the concurrent calls.
const graceAfterTerminal = 250 * time.Millisecond

// never is a time-out that is longer than any run.
const never = milliseconds(1 << 62)

// within cancels the exchange after the limit (0: never). That ends a blocked read, so no stream needs a goroutine of its own for time-outs.
func (x *exchange) within(limit milliseconds, what string) *time.Timer {
	after := time.Duration(cmp.Or(limit, never))
	return time.AfterFunc(after, func() { x.cancel(timeoutError(fmt.Sprintf("timeout: %s within %s", what, after))) })
}

// bytesCame restarts the idle time-out. Comments count too, because servers send them to keep a stream alive.
func (x *exchange) bytesCame() {
	x.toNext.Reset(time.Duration(cmp.Or(x.request.IdleTimeout, never)))
}

// handling stops the idle time-out while the script's handlers run: nothing is read then, so the silence is not the server's.
func (x *exchange) handling(run func()) {
	x.toNext.Stop()
	run()
	x.bytesCame()
}

func (x *exchange) receive(ctx context.Context, answer *http.Response) {
	// Closing after the end of the body leaves the connection to the next exchange; closing earlier gives it up.
	defer func() { _ = answer.Body.Close() }()
	x.Status, x.header = answer.StatusCode, answer.Header
	if answer.ProtoMajor == 2 {
		x.budget.http2.Add(1)
	} else {
		x.budget.http1.Add(1)
	}
	if x.request.jar != nil {
		x.request.jar.SetCookies(x.request.out.URL, answer.Cookies())
	}
	// The idle time-out begins with the head; until then firstEventTimeout bounds the wait.
	x.toNext = x.within(x.request.IdleTimeout, "no byte came")
	defer x.toNext.Stop()
	if answer.StatusCode != http.StatusOK || !isEventStream(answer.Header.Get("Content-Type")) || hasCoding(answer.Header) {
		x.toFirst.Stop()
		x.readRefusal(ctx, answer)
		return
	}
	x.Opened = true
	x.budget.streamBegan(x.startedAt)
	defer func() { x.budget.streamEnded(time.Now()) }()
	if x.client.listens("open") {
		x.handling(func() { x.client.emit("open") })
	}
	x.readStream(ctx, answer.Body)
}

func isEventStream(contentType string) bool {
	media, _, _ := strings.Cut(contentType, ";")
	return strings.EqualFold(strings.TrimSpace(media), "text/event-stream")
}

// hasCoding reports whether the body is encoded, as codingOf of src/contract/refusals.ts does. No call asks for a coding, so it is not decoded.
func hasCoding(header http.Header) bool {
	for part := range strings.SplitSeq(strings.Join(header["Content-Encoding"], ","), ",") {
		if name := strings.TrimSpace(part); name != "" && !strings.EqualFold(name, "identity") {
			return true
		}
	}
	return false
}

func (x *exchange) readStream(ctx context.Context, body io.Reader) {
	parser := eventstream.Parser{KeepData: x.client.listens("event"), MaxBytes: maxEventBytes}
	buffer := readBuffers.Get().(*[]byte)
	defer readBuffers.Put(buffer)
	var readAt time.Time
	take := func(e eventstream.Event) bool { return x.event(e, readAt) }
	total := 0
	for !x.client.stopped() {
		n, err := body.Read(*buffer)
		readAt = x.wire.readAt()
		if n > 0 {
			x.bytesCame()
			if parseErr := parser.Feed((*buffer)[:n], take); parseErr != nil {
				x.over(time.Now(), endClosed, parseErr)
				return
			}
			if total += n; total > maxStreamBytes {
				x.over(time.Now(), endClosed, errStreamTooLarge)
				return
			}
		}
		if err != nil && !x.client.stopped() {
			x.failed(ctx, err)
			return
		}
	}
	x.over(time.Now(), endClosed, nil)
}

// event handles one event, at the time when its last byte came; false stops the reading.
func (x *exchange) event(e eventstream.Event, now time.Time) bool {
	at := max(now.Sub(x.startedAt), x.last)
	x.Events++
	if x.Events == 1 {
		x.first = at
		x.toFirst.Stop()
	} else if len(x.gaps) < gapsKept {
		x.gaps = append(x.gaps, at-x.last)
	}
	x.last = at
	name := cmp.Or(eventstream.Text(e.Name), "message") // without a name, as in a browser
	x.called(name)
	if x.end != "" {
		x.Late++
	} else if ending := x.request.ending(name); ending != "" {
		x.end, x.done = ending, at
		time.AfterFunc(graceAfterTerminal, func() { x.cancel(errGraceOver) })
	}
	if x.client.listens("event") {
		x.handling(func() { x.client.emitEvent(e) })
	}
	if most := x.request.CloseAfterEvents; most != nil && x.Events >= *most {
		x.client.closed = true
	}
	return !x.client.stopped()
}

// called notes the distinct names of events in the order of their first occurrence. A stream has a handful.
func (x *exchange) called(name string) {
	if shown := shortened(name); !slices.Contains(x.Names, shown) && len(x.Names) < namesKept {
		x.Names = append(x.Names, shown)
	}
}

// failed ends the exchange for an error. After a terminal event the end stays, and only a break that we did not cause is reported.
func (x *exchange) failed(ctx context.Context, err error) {
	switch {
	case errors.Is(err, io.EOF) && x.Status != 0 && x.end == "" && x.Opened && x.request.Terminal.Required && x.Events > 0:
		x.over(time.Now(), endTruncated, errNoLastEvent)
	case errors.Is(err, io.EOF) && x.Status != 0:
		x.over(time.Now(), endEOF, nil)
	case x.end == "":
		ending, err := classify(ctx, err)
		x.over(time.Now(), ending, err)
	case context.Cause(ctx) == nil:
		x.err = fmt.Errorf("after the terminal event: %w", err) // AFTER_TERMINAL of src/contract/foreign-text.ts
	}
}

// over sets the end, unless a terminal event has set it already.
func (x *exchange) over(at time.Time, ending end, err error) {
	if x.end == "" {
		x.end, x.done = ending, at.Sub(x.startedAt)
	}
	if x.err == nil {
		x.err = err
	}
}

// readRefusal reads an answer that is no event stream. A truncated answer does not count as a refusal: a client cannot rely on half an answer.
func (x *exchange) readRefusal(ctx context.Context, answer *http.Response) {
	defer func() { x.over(x.wire.readAt(), endRefused, nil) }()
	if answer.StatusCode == http.StatusSwitchingProtocols { // its "body" is the connection
		return
	}
	body, err := io.ReadAll(io.TeeReader(io.LimitReader(answer.Body, maxRefusalBytes), x))
	if err != nil {
		x.failed(ctx, err)
	}
	x.Body = eventstream.Text(body)
}

// Write restarts the idle time-out for the bytes of a refusal, which a TeeReader passes here.
func (x *exchange) Write(p []byte) (int, error) {
	x.bytesCame()
	return len(p), nil
}
