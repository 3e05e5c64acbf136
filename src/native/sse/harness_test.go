package sse

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.k6.io/k6/v2/js/modulestest"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/lib/netext"
	"go.k6.io/k6/v2/metrics"
)

// vu is one VU of a test: k6's own test runtime with the transport that k6 gives its VUs.
type vu struct {
	*modulestest.Runtime
	t       *testing.T
	samples chan metrics.SampleContainer
}

// result is what sse.open gave back, and what the handlers of script saw.
type result struct {
	URL     string
	Status  int
	Headers map[string]string
	Error   string
	Body    string
	Ended   string
	Events  int
	Late    int
	Names   []string
	Gaps    []int64
	HeldUs  int64  `js:"held_us"`
	StartUs *int64 `js:"started_us"`
	ConnUs  int64  `js:"connect_us"`
	SentUs  *int64 `js:"sent_us"`
	HeadUs  *int64 `js:"first_us"`
	FirstUs *int64 `js:"first_event_us"`
	LastUs  *int64 `js:"last_event_us"`
	DoneUs  *int64 `js:"done_us"`
	Seen    []string
	Opened  int
	Errors  []string
}

func newVU(t *testing.T) *vu {
	t.Helper()
	return newVUOf(t, NewRootModule())
}

// newVUOf makes one of several VUs of a process, which share the module.
func newVUOf(t *testing.T, root *RootModule) *vu {
	t.Helper()
	runtime := modulestest.NewRuntime(t)
	registry := runtime.VU.InitEnvField.Registry
	if err := runtime.SetupModuleSystem(map[string]any{"k6/x/floodgate": root, "k6/x/sse": forAll(*root)}, nil, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := runtime.VU.Runtime().RunString(`const sse = require("k6/x/floodgate").default, forAll = require("k6/x/sse");`); err != nil {
		t.Fatal(err)
	}
	dialer := netext.NewDialer(net.Dialer{Timeout: 30 * time.Second}, nil)
	transport := &http.Transport{DialContext: dialer.DialContext, DisableCompression: true, MaxIdleConnsPerHost: 6}
	stampReads(transport) // as beside a VU
	t.Cleanup(transport.CloseIdleConnections)
	samples := make(chan metrics.SampleContainer, 1000)
	runtime.MoveToVUContext(&lib.State{
		Options:   lib.Options{SystemTags: &metrics.DefaultSystemTagSet},
		Logger:    logrus.New(),
		Dialer:    dialer,
		Transport: transport,
		Samples:   samples,
		Tags:      lib.NewVUStateTags(registry.RootTagSet().With("scenario", "test")),
	})
	return &vu{Runtime: runtime, t: t, samples: samples}
}

// recording notes in a script what the handlers see. %s: url, params, and what the event handler does besides.
const recording = `
	(() => {
		const seen = [], errors = [];
		let opened = 0;
		const result = sse.open(%q, %s, (client) => {
			client.on("open", () => { opened++; });
			client.on("event", (e) => { seen.push(e.id + "|" + e.name + "|" + e.data + "|" + e.comment); %s });
			client.on("error", (e) => { errors.push(e.error()); });
		});
		return { ...result, seen, opened, errors };
	})()`

// open runs sse.open with handlers that note what they see.
func (v *vu) open(url, params string, also ...string) result {
	v.t.Helper()
	return v.result(fmt.Sprintf(recording, url, params, strings.Join(also, ";")))
}

// silent runs sse.open without an event handler.
func (v *vu) silent(url, params string) result {
	v.t.Helper()
	return v.result(fmt.Sprintf(`sse.open(%q, %s)`, url, params))
}

func (v *vu) result(script string) result {
	v.t.Helper()
	value, err := v.within(script)
	if err != nil {
		v.t.Fatalf("sse.open threw: %v", err)
	}
	return value
}

// within runs a script and fails the test when it hangs, which is the one thing that open must never do.
func (v *vu) within(script string) (r result, err error) {
	v.t.Helper()
	over := make(chan struct{})
	go func() {
		defer close(over)
		value, runErr := v.VU.Runtime().RunString(script)
		if err = runErr; err == nil {
			err = v.VU.Runtime().ExportTo(value, &r)
		}
	}()
	select {
	case <-over:
		return r, err
	case <-time.After(20 * time.Second):
		v.t.Fatal("sse.open did not return")
		return r, err
	}
}

// throws runs a script that must throw, and gives the message.
func (v *vu) throws(script string) string {
	v.t.Helper()
	_, err := v.within(script)
	if err == nil {
		v.t.Fatalf("expected an exception from %s", script)
	}
	return err.Error()
}

func (v *vu) containers() []metrics.SampleContainer {
	return metrics.GetBufferedSamples(v.samples)
}

// serve answers with net/http.
func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// serveRaw answers each request with whatever bytes and breaks the test wants: answer is called with the connection, after the request
// was read, and the connection is closed when it returns.
func serveRaw(t *testing.T, answer func(conn *net.TCPConn)) string {
	t.Helper()
	return serveConns(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		if _, err := http.ReadRequest(reader); err == nil {
			answer(conn)
		}
	})
}

// serveConns calls answer with each connection that comes, and closes it when answer returns.
func serveConns(t *testing.T, answer func(conn *net.TCPConn, reader *bufio.Reader)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				answer(conn.(*net.TCPConn), bufio.NewReader(conn))
			}()
		}
	}()
	return "http://" + listener.Addr().String()
}

const head = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"

// chunked is a whole answer with one HTTP chunk for each frame and without the last chunk.
func chunked(frames ...string) string {
	var answer strings.Builder
	answer.WriteString(head + "Transfer-Encoding: chunked\r\n\r\n")
	for _, frame := range frames {
		fmt.Fprintf(&answer, "%x\r\n%s\r\n", len(frame), frame)
	}
	return answer.String()
}

const lastChunk = "0\r\n\r\n"

func write(conn net.Conn, text string) {
	_, _ = conn.Write([]byte(text)) // the client may have gone; the test looks at what the client got
}

// stream answers as a server of events does.
func stream(frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, frame := range frames {
			_, _ = w.Write([]byte(frame))
			w.(http.Flusher).Flush()
		}
	}
}

// silence holds the connection until the client goes.
func silence(r *http.Request) {
	<-r.Context().Done()
}

func goneWithin(t *testing.T, ctx context.Context) {
	t.Helper()
	select {
	case <-ctx.Done():
	case <-time.After(20 * time.Second):
		t.Error("the connection was left open")
	}
}

func expect[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: expected %v, got %v", what, want, got)
	}
}

// eventually asks until the answer is yes, at most for 10 s.
func eventually(t *testing.T, holds func() bool) bool {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}
