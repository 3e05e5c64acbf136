package sse

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/metrics"
)

// record is the result of a call as open returns it to a script: SseResponse of scenarios/k6-x-sse.d.ts. k6 derives those names from these.
type record struct {
	StartedUs    any      `json:"startedUs"` // here and below: an int64, or nil if it did not happen
	ConnectUs    any      `json:"connectUs"`
	SentUs       any      `json:"sentUs"`
	FirstUs      any      `json:"firstUs"`
	FirstEventUs any      `json:"firstEventUs"`
	LastEventUs  any      `json:"lastEventUs"`
	DoneUs       any      `json:"doneUs"`
	Status       int      `json:"status"`
	Ended        string   `json:"ended"`
	Opened       bool     `json:"opened"` // a stream began
	Events       int      `json:"events"`
	Late         int      `json:"late"` // events after the terminal one, counted in events too
	Names        []string `json:"names"`
	Gaps         []int64  `json:"gaps"`
	Error        string   `json:"error"`
	Body         string   `json:"body"` // of a refusal
	Aborted      bool     `json:"aborted"`

	HeldUs  int64             `json:"-"`
	URL     string            `json:"-"`
	Headers map[string]string `json:"-"`
}

// printed is what the extension adds to the place of a call: with it Printed or, for a minted session, PrintedMint of src/workload/handover.ts.
type printed struct {
	IntendedUs int64 `json:"intendedUs,omitempty"`
	record
	RetryAfter any `json:"retryAfter,omitempty"`
	Coding     any `json:"coding,omitempty"`
}

// whole returns the complete record of an exchange that is over.
func (x *exchange) whole() record {
	r, started := x.record, !x.startedAt.IsZero()
	r.StartedUs, r.DoneUs, r.HeldUs = x.moment(started, 0), x.moment(started, x.done), x.held.Microseconds()
	r.ConnectUs, r.SentUs, r.FirstUs = int64(0), x.onWire(&x.wire.sent), x.onWire(&x.wire.head)
	if connected := x.onWire(&x.wire.connected); connected != nil {
		r.ConnectUs = connected
	}
	r.FirstEventUs, r.LastEventUs = x.moment(x.Events > 0, x.first), x.moment(x.Events > 0, x.last)
	r.Ended, r.Gaps = string(x.end), make([]int64, len(x.gaps))
	if x.err != nil {
		r.Error = x.err.Error()
	}
	if most := x.request.CloseAfterEvents; most != nil {
		r.Aborted = x.Events >= *most && x.end == endClosed
	}
	for at, gap := range x.gaps {
		r.Gaps[at] = gap.Microseconds()
	}
	return r
}

func (x *exchange) response(rt *sobek.Runtime) sobek.Value {
	r := x.whole()
	r.URL, r.Headers = x.request.url.URL, map[string]string{}
	for name := range x.header {
		r.Headers[name] = strings.Join(x.header[name], ", ")
	}
	return rt.ToValue(&r)
}

// moment returns microseconds since 1970 of an event at this duration after the start, nil if it did not happen.
func (x *exchange) moment(happened bool, since time.Duration) any {
	if !happened {
		return nil
	}
	return unixMicro(x.startedAt.Add(since))
}

func (x *exchange) onWire(nanoseconds *atomic.Int64) any {
	return x.moment(nanoseconds.Load() != 0, time.Duration(nanoseconds.Load()))
}

// line returns the printed text of a call, without secrets. place: a JSON object that says which call it is; intendedUs: when it was due, 0 if it
// had no schedule; isSession: the answer to a success holds a token.
func (x *exchange) line(place string, intendedUs int64, isSession bool) []byte {
	l := printed{IntendedUs: intendedUs, record: x.whole()}
	l.Body, l.Error = x.printable(isSession), shortened(l.Error)
	if values := x.header["Retry-After"]; len(values) > 0 {
		l.RetryAfter = shortened(strings.Join(values, ", "))
	}
	if values := x.header["Content-Encoding"]; len(values) > 0 {
		l.Coding = shortened(strings.Join(values, ", "))
	}
	text, _ := json.Marshal(l) // cannot fail: it holds only texts, numbers and lists of them
	return slices.Concat([]byte(strings.TrimSuffix(place, "}")), []byte{','}, text[1:])
}

// printEvery is how long a line may wait to be written together with others: a write per line would cost more than the call.
const printEvery = 20 * time.Millisecond

// printer writes lines to a file for the runner.
type printer struct {
	mu     sync.Mutex
	path   string
	buffer *bufio.Writer
	armed  bool // a flush is due
}

// open sets the file, which is appended to. Every VU calls it in the init context, with the same path.
func (p *printer) open(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buffer != nil {
		if p.path != path {
			return fmt.Errorf("sse.printTo: the process prints to %s already; all VUs are to say the same", p.path)
		}
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("sse.printTo: %w", err)
	}
	p.path, p.buffer = path, bufio.NewWriterSize(file, 1<<16)
	return nil
}

func (p *printer) write(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buffer == nil {
		return fmt.Errorf("sse.print: say where to by sse.printTo")
	}
	// The buffer is flushed first, so that a reader of the file rarely sees a part of a line.
	if p.buffer.Available() <= len(line) {
		if err := p.buffer.Flush(); err != nil {
			return err
		}
	}
	_, _ = p.buffer.Write(line)
	err := p.buffer.WriteByte('\n')
	if !p.armed {
		p.armed = true
		time.AfterFunc(printEvery, func() { _ = p.flush() })
	}
	return err
}

func (p *printer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.buffer == nil {
		return nil
	}
	return p.buffer.Flush()
}

// streamMetrics holds the k6 metrics of every exchange, by name. They have no url tag: each address with an id would make a time series.
type streamMetrics map[string]*metrics.Metric

func registerMetrics(registry *metrics.Registry) (streamMetrics, error) {
	m := streamMetrics{}
	var err error
	add := func(name string, kind metrics.MetricType, value metrics.ValueType) {
		if err == nil {
			m[name], err = registry.NewMetric(name, kind, value)
		}
	}
	add("sse_time_to_first_event", metrics.Trend, metrics.Time) // since the request was handed to the transport
	add("sse_event_gap", metrics.Trend, metrics.Time)
	add("sse_stream_duration", metrics.Trend, metrics.Time) // of streams that opened, to the terminal event or to the end when there was none
	add("sse_streams", metrics.Counter, metrics.Default)    // exchanges
	add("sse_event", metrics.Counter, metrics.Default)
	return m, err
}

// push sends all samples of an exchange at once, also for an interrupted iteration: a stream that was cut by the end of a test counts.
func (m streamMetrics) push(state *lib.State, x *exchange) {
	if x.startedAt.IsZero() || state.Samples == nil {
		return
	}
	tags := tagsOf(state, x)
	samples := make(metrics.Samples, 0, len(x.gaps)+4)
	add := func(name string, at time.Duration, value float64) {
		samples = append(samples, metrics.Sample{
			TimeSeries: metrics.TimeSeries{Metric: m[name], Tags: tags.Tags},
			Time:       x.startedAt.Add(at),
			Metadata:   tags.Metadata,
			Value:      value,
		})
	}
	if x.Events > 0 {
		add("sse_time_to_first_event", x.first, metrics.D(x.first))
		add("sse_event", x.done, float64(x.Events))
	}
	at := x.first
	for _, gap := range x.gaps {
		if x.request.GapSamples {
			at += gap
			add("sse_event_gap", at, metrics.D(gap))
		}
	}
	if x.Opened {
		add("sse_stream_duration", x.done, metrics.D(x.done))
	}
	add("sse_streams", x.done, 1)
	state.Samples <- samples
}

func tagsOf(state *lib.State, x *exchange) metrics.TagsAndMeta {
	tags, enabled := x.request.tags.Clone(), state.Options.SystemTags
	if _, named := tags.Tags.Get(metrics.TagName.String()); !named {
		tags.SetSystemTagOrMetaIfEnabled(enabled, metrics.TagName, x.request.name())
	}
	tags.SetSystemTagOrMetaIfEnabled(enabled, metrics.TagMethod, x.request.Method)
	tags.SetSystemTagOrMetaIfEnabled(enabled, metrics.TagStatus, strconv.Itoa(x.Status))
	tags.SetTag("ended", string(x.end))
	return tags
}
