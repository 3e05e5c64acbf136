package sse

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

const terminal = `{ terminal: { done: "done", error: ["error", "fatal"] } }`

func TestDoneWhenADoneEventCame(t *testing.T) {
	url := serve(t, stream("id: 1\nevent: token\ndata: a\n\n", ": ping\n\n", "event: token\ndata: b\n\n", "event: done\ndata: {}\n\n"))
	before := time.Now().UnixMicro()
	r := newVU(t).open(url, terminal)
	expect(t, "ended", r.Ended, "done")
	expect(t, "status", r.Status, 200)
	expect(t, "error", r.Error, "")
	expect(t, "body", r.Body, "")
	expect(t, "url", r.URL, url)
	expect(t, "events", r.Events, 3)
	expect(t, "late", r.Late, 0)
	expect(t, "opened", r.Opened, 1)
	expect(t, "content type", r.Headers["Content-Type"], "text/event-stream; charset=utf-8")
	expect(t, "seen", strings.Join(r.Seen, " "), "1|token|a| 1|token|b|ping 1|done|{}|")
	if r.StartUs == nil || r.SentUs == nil || r.HeadUs == nil || r.FirstUs == nil || r.DoneUs == nil {
		t.Fatalf("expected five times, got %v %v %v %v %v", r.StartUs, r.SentUs, r.HeadUs, r.FirstUs, r.DoneUs)
	}
	times := []int64{before, *r.StartUs, r.ConnUs, *r.SentUs, *r.HeadUs, *r.FirstUs, *r.DoneUs, time.Now().UnixMicro()}
	if !slices.IsSorted(times) {
		t.Errorf("expected before <= started <= connect <= sent <= first byte <= first event <= done <= now, got %v", times)
	}
}

func TestErrorEventWhenAnErrorEventCame(t *testing.T) {
	for _, name := range []string{"error", "fatal"} {
		r := newVU(t).silent(serve(t, stream("data: a\n\n", "event: "+name+"\ndata: {}\n\n")), terminal)
		expect(t, "ended", r.Ended, "error_event")
		expect(t, "events", r.Events, 2)
		expect(t, "error", r.Error, "")
	}
}

func TestAnUnnamedEventIsAMessage(t *testing.T) {
	r := newVU(t).silent(serve(t, stream("data: a\n\n")), `{ terminal: { done: "message" } }`)
	expect(t, "ended", r.Ended, "done")
}

func TestEOFWithoutATerminalEvent(t *testing.T) {
	closing := serveRaw(t, func(conn *net.TCPConn) { write(conn, head+"Connection: close\r\n\r\ndata: a\n\ndata: b\n\n") })
	for name, url := range map[string]string{"chunked": serve(t, stream("data: a\n\n", "data: b\n\n")), "until the connection closes": closing} {
		r := newVU(t).open(url, terminal)
		expect(t, name+" ended", r.Ended, "eof")
		expect(t, name+" events", r.Events, 2)
		expect(t, name+" error", r.Error, "")
		expect(t, name+" errors seen", len(r.Errors), 0)
	}
	empty := newVU(t).open(serve(t, stream()), terminal)
	expect(t, "an empty stream ended", empty.Ended, "eof")
	if empty.FirstUs != nil {
		t.Errorf("no event came, so first_us is to be null, got %d", *empty.FirstUs)
	}
}

func TestARequiredLastEventThatDoesNotComeIsACut(t *testing.T) {
	const required = `{ terminal: { done: "fin", error: "error", required: true } }`
	closing := serveRaw(t, func(conn *net.TCPConn) {
		write(conn, head+"Connection: close\r\n\r\ndata: a\n\nevent: done\ndata: b\n\n")
	})
	for name, url := range map[string]string{"chunked": serve(t, stream("data: a\n\n", "data: b\n\n")), "until the connection closes": closing} {
		r := newVU(t).silent(url, required)
		expect(t, name+" ended", r.Ended, "truncated")
		expect(t, name+" events", r.Events, 2)
		expect(t, name+" error", r.Error, "no_last_event")
	}
	whole := newVU(t).silent(serve(t, stream("data: a\n\n", "event: fin\ndata: b\n\n")), required)
	expect(t, "with it", whole.Ended+" "+whole.Error, "done ")
	failed := newVU(t).silent(serve(t, stream("event: error\ndata: b\n\n")), required)
	expect(t, "an error instead", failed.Ended+" "+failed.Error, "error_event ")
	empty := newVU(t).silent(serve(t, stream()), required)
	expect(t, "without any event", empty.Ended+" "+empty.Error, "eof ")
}

func TestTruncatedWhenTheBodyStopsBeforeItsFramingSays(t *testing.T) {
	for name, answer := range map[string]string{
		"between chunks":   chunked("data: a\n\n"),
		"within a chunk":   chunked("data: a\n\n") + "40\r\ndata: b",
		"a length not met": head + "Content-Length: 100\r\n\r\ndata: a\n\n",
	} {
		r := newVU(t).open(serveRaw(t, func(conn *net.TCPConn) { write(conn, answer) }), terminal)
		expect(t, name+" ended", r.Ended, "truncated")
		expect(t, name+" status", r.Status, 200)
		expect(t, name+" events", r.Events, 1)
		expect(t, name+" error", r.Error, "unexpected EOF")
		expect(t, name+" errors seen", strings.Join(r.Errors, ";"), r.Error)
	}
}

func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0) // closing now sends a RST
}

func TestResetWhenTheConnectionBreaks(t *testing.T) {
	midStream := serveRaw(t, func(conn *net.TCPConn) {
		write(conn, chunked("data: a\n\n"))
		time.Sleep(20 * time.Millisecond) // a RST may overtake what the client has not read yet
		reset(conn)
	})
	r := newVU(t).open(midStream, terminal)
	expect(t, "ended", r.Ended, "reset")
	expect(t, "status", r.Status, 200)
	expect(t, "events", r.Events, 1)
	expect(t, "errors seen", strings.Join(r.Errors, ";"), r.Error)

	beforeHead := serveRaw(t, reset)
	closedBeforeHead := serveRaw(t, func(*net.TCPConn) {})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + listener.Addr().String()
	_ = listener.Close()
	for name, url := range map[string]string{"reset before the head": beforeHead, "closed before the head": closedBeforeHead, "connection refused": nobody} {
		r := newVU(t).open(url, terminal)
		expect(t, name+" ended", r.Ended, "reset")
		expect(t, name+" status", r.Status, 0)
		expect(t, name+" opened", r.Opened, 0)
		expect(t, name+" errors seen", strings.Join(r.Errors, ";"), r.Error)
		if r.Error == "" {
			t.Errorf("%s: expected the error to be told", name)
		}
	}
}

func TestTimeouts(t *testing.T) {
	noHead := func(_ http.ResponseWriter, r *http.Request) { silence(r) }
	headOnly := func(w http.ResponseWriter, r *http.Request) { stream("")(w, r); silence(r) }
	oneEvent := func(w http.ResponseWriter, r *http.Request) { stream("data: a\n\n")(w, r); silence(r) }
	pings := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			stream(": ping\n\n")(w, r)
			time.Sleep(5 * time.Millisecond)
		}
	}
	refusal := func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(429)
		_, _ = w.Write([]byte(`{"sub`))
		w.(http.Flusher).Flush()
		silence(r)
	}
	// Long beside what a busy machine may stand still: what the server writes first has to come in time.
	for _, c := range []struct {
		name, params, text string
		status, events     int
		server             http.HandlerFunc
	}{
		{"timeout before the head", `{ timeout: "1s" }`, "did not end within 1s", 0, 0, noHead},
		{"timeout after the head", `{ timeout: 1000 }`, "did not end within 1s", 200, 0, headOnly},
		{"timeout although bytes come", `{ timeout: 1000, idleTimeout: 50000 }`, "did not end within 1s", 200, 0, pings},
		{"timeout in a refusal", `{ timeout: "1s" }`, "did not end within 1s", 429, 0, refusal},
		{"firstEventTimeout before the head", `{ firstEventTimeout: 1000 }`, "no first event within 1s", 0, 0, noHead},
		{"firstEventTimeout although comments come", `{ firstEventTimeout: "1.0s" }`, "no first event within 1s", 200, 0, pings},
		{"idleTimeout without an event", `{ idleTimeout: 1000 }`, "no byte came within 1s", 200, 0, headOnly},
		{"idleTimeout after an event", `{ idleTimeout: 1000, firstEventTimeout: 50000 }`, "no byte came within 1s", 200, 1, oneEvent},
		{"idleTimeout in a refusal", `{ idleTimeout: 1000 }`, "no byte came within 1s", 429, 0, refusal},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			gone := make(chan struct{})
			r := newVU(t).open(serve(t, func(w http.ResponseWriter, r *http.Request) { defer close(gone); c.server(w, r) }), c.params)
			expect(t, "ended", r.Ended, "timeout")
			expect(t, "status", r.Status, c.status)
			expect(t, "events", r.Events, c.events)
			expect(t, "errors seen", strings.Join(r.Errors, ";"), r.Error)
			if !strings.Contains(r.Error, c.text) {
				t.Errorf("expected an error with %q, got %q", c.text, r.Error)
			}
			<-gone // the connection was cut: the server saw it
		})
	}
}

func TestTimeoutsThatDoNotFire(t *testing.T) {
	for _, c := range []struct {
		name, params, handler string
		server                http.HandlerFunc
	}{
		{"comments are life", `{ idleTimeout: 1000, terminal: { done: "done" } }`, "", func(w http.ResponseWriter, r *http.Request) {
			for range 30 {
				stream(": ping\n\n")(w, r)
				time.Sleep(50 * time.Millisecond)
			}
			stream("event: done\ndata: a\n\n")(w, r)
		}},
		{"only the first event has to come in time", `{ firstEventTimeout: 1000, terminal: { done: "done" } }`, "", func(w http.ResponseWriter, r *http.Request) {
			stream("data: a\n\n")(w, r)
			time.Sleep(1300 * time.Millisecond)
			stream("event: done\ndata: b\n\n")(w, r)
		}},
		{
			"time in the script's handler is not the server's silence", `{ idleTimeout: 500, terminal: { done: "done" } }`,
			`const until = Date.now() + 700; while (Date.now() < until);`, stream("data: a\n\n", "event: done\ndata: b\n\n"),
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := newVU(t).open(serve(t, c.server), c.params, c.handler)
			expect(t, "ended", r.Ended, "done")
			expect(t, "error", r.Error, "")
		})
	}
}

func TestRefusedGivesTheBody(t *testing.T) {
	for _, c := range []struct {
		name, contentType, body string
		status                  int
	}{
		{"a refusal without a trailing newline", "application/json", `{"subcode":"org_overloaded"}`, 429},
		{"an empty 503", "application/json", "{}", 503},
		{"JSON with 200", "application/json", `{"error":{"code":"boom"}}`, 200},
		{"an event stream with 500", "text/event-stream", "data: a\n\n", 500},
		{"no body", "text/event-stream", "", 204},
		{"a type that only begins the same", "text/event-streams", "x", 200},
		{"no type", "", "x", 200},
	} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{c.contentType}
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(c.status)
			_, _ = w.Write([]byte(c.body))
		})
		r := newVU(t).open(url, terminal)
		expect(t, c.name+" ended", r.Ended, "refused")
		expect(t, c.name+" status", r.Status, c.status)
		expect(t, c.name+" body", r.Body, c.body)
		expect(t, c.name+" error", r.Error, "")
		expect(t, c.name+" Retry-After", r.Headers["Retry-After"], "1")
		expect(t, c.name+" events", r.Events, 0)
		expect(t, c.name+" opened", r.Opened, 0)
		expect(t, c.name+" errors seen", len(r.Errors), 0)
	}
}

func TestARefusalIsReadUpToABoundAndOnlyAWholeOneIsRefused(t *testing.T) {
	large := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(500)
		_, _ = w.Write([]byte(strings.Repeat("x", maxRefusalBytes+100_000)))
	})
	r := newVU(t).open(large, terminal)
	expect(t, "ended", r.Ended, "refused")
	expect(t, "length", len(r.Body), maxRefusalBytes)

	cut := serveRaw(t, func(conn *net.TCPConn) {
		write(conn, "HTTP/1.1 429 Too Many Requests\r\nContent-Length: 50\r\n\r\n{\"sub")
	})
	r = newVU(t).open(cut, terminal)
	expect(t, "ended", r.Ended, "truncated")
	expect(t, "status", r.Status, 429)
	expect(t, "body", r.Body, `{"sub`)
}

func TestACodedStreamIsNoStreamAndItsCodingIsSaid(t *testing.T) {
	for coding, isStream := range map[string]bool{"gzip": false, "GZIP": false, "identity, br": false, "of-our-own": false, "identity": true, "": true} {
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			w.Header().Set("Content-Encoding", coding)
			_, _ = w.Write([]byte("event: done\ndata: {}\n\n"))
		})
		r := newVU(t).open(url, terminal)
		expect(t, coding+" ended", r.Ended, map[bool]string{true: "done", false: "refused"}[isStream])
		expect(t, coding+" events", r.Events, map[bool]int{true: 1}[isStream])
		expect(t, coding+" named", r.Headers["Content-Encoding"], coding)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) })
	r := newVU(t).open(url, `{}`)
	expect(t, "ended", r.Ended, "refused")
	expect(t, "status", r.Status, 302)
}

func TestClosedByClient(t *testing.T) {
	contexts := make(chan context.Context, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		contexts <- r.Context()
		stream("data: a\n\ndata: b\n\n", "data: c\n\n")(w, r)
		silence(r)
	})
	v := newVU(t)
	r := v.result(fmt.Sprintf(`sse.open(%q, {}, (client) => client.on("event", () => { client.close(); client.close(); }))`, url))
	expect(t, "ended", r.Ended, "closed_by_client")
	expect(t, "events", r.Events, 1)
	expect(t, "error", r.Error, "")
	goneWithin(t, <-contexts)

	r = v.result(fmt.Sprintf(`sse.open(%q, {}, (client) => client.close())`, url))
	expect(t, "closed before it was sent: ended", r.Ended, "closed_by_client")
	expect(t, "status", r.Status, 0)
	if r.SentUs != nil || r.DoneUs != nil || len(contexts) != 0 {
		t.Error("nothing was to be sent")
	}

	r = v.result(fmt.Sprintf(`sse.open(%q, { terminal: { done: "message" } }, (client) => client.on("event", () => client.close()))`, url))
	expect(t, "closed on the terminal event: ended", r.Ended, "done")
}

func TestAnInterruptedIterationEndsTheStreamAndIsCounted(t *testing.T) {
	v := newVU(t)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream("data: a\n\n")(w, r)
		v.CancelContext()
		silence(r)
	})
	r := v.open(url, terminal)
	expect(t, "ended", r.Ended, "closed_by_client")
	expect(t, "error", r.Error, "interrupted: context canceled")
	expect(t, "containers of samples", len(v.containers()), 1)
}

func TestLateEventsAreCounted(t *testing.T) {
	same := serve(t, stream("data: a\n\n", "event: done\ndata: {}\n\ndata: b\n\n", "event: error\ndata: {}\n\n"))
	r := newVU(t).open(same, terminal)
	expect(t, "ended", r.Ended, "done")
	expect(t, "events", r.Events, 4)
	expect(t, "late", r.Late, 2)
	expect(t, "seen", len(r.Seen), 4)

	open := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream("event: done\ndata: {}\n\n")(w, r)
		time.Sleep(20 * time.Millisecond)
		stream("data: b\n\n")(w, r)
		silence(r)
	})
	r = newVU(t).silent(open, terminal)
	expect(t, "a server that does not close: ended", r.Ended, "done")
	expect(t, "late", r.Late, 1)
	expect(t, "error", r.Error, "")
	if *r.DoneUs-*r.FirstUs > 0 {
		t.Errorf("the stream is done when its terminal event comes, not when the wait for late ones is over: %d us later", *r.DoneUs-*r.FirstUs)
	}
}

func TestABreakAfterTheTerminalEventIsTold(t *testing.T) {
	r := newVU(t).open(serveRaw(t, func(conn *net.TCPConn) { write(conn, chunked("event: done\ndata: {}\n\n")) }), terminal)
	expect(t, "ended", r.Ended, "done")
	expect(t, "error", r.Error, "after the terminal event: unexpected EOF")
}

func TestAnEventOverTheBoundEndsTheStreamByName(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		piece := "data: " + strings.Repeat("x", 1<<20) + "\n"
		for range 9 {
			stream(piece)(w, r)
		}
		silence(r)
	})
	for _, r := range []result{newVU(t).open(url, terminal), newVU(t).silent(url, terminal)} {
		expect(t, "ended", r.Ended, "closed_by_client")
		expect(t, "error", r.Error, fmt.Sprintf("event too large: more than %d bytes", maxEventBytes))
		expect(t, "events", r.Events, 0)
	}
}
