package sse

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAnEventOfAMegabyte(t *testing.T) {
	text := strings.Repeat("0123456789abcdef", 1<<16)
	v := newVU(t)
	r := v.result(`(() => {
		let size = 0, same = true;
		const result = sse.open("` + serve(t, stream("data: "+text+"\n\n", "event: done\ndata\n\n")) + `", ` + terminal + `, (client) => {
			client.on("event", (e) => { if (e.name === "") { size = e.data.length; same = e.data === "0123456789abcdef".repeat(65536); } });
		});
		return { ...result, error: size + " " + same };
	})()`)
	expect(t, "ended", r.Ended, "done")
	expect(t, "size and content", r.Error, "1048576 true")
	unheard := v.silent(serve(t, stream("data: a\n\n", "data: "+text+"\n\n", "data: "+text+"\n\n", "event: done\ndata\n\n")), terminal)
	expect(t, "events that no handler listens to", unheard.Ended+fmt.Sprint(unheard.Events), "done4")
}

// The frames use every line end, a byte order mark and text of more than one byte, so that a cut falls into each.
// The server closes after it, so it says so: a request on a connection that is being closed is lost.
var answer = strings.Replace(chunked("\xEF\xBB\xBFid: 1\r\nevent: tökén\rdata: 🗺\r\n", "data: b\r\n\r", "\n", "event: done\ndata: {}\n\n"), head, head+"Connection: close\r\n", 1) + lastChunk

func TestTheSameWhereverTheSocketCutsTheAnswer(t *testing.T) {
	var cut atomic.Int64
	url := serveRaw(t, func(conn *net.TCPConn) {
		at := int(cut.Load())
		write(conn, answer[:at])
		time.Sleep(time.Millisecond) // lets the client read the first part alone
		write(conn, answer[at:])
	})
	v := newVU(t)
	for at := range len(answer) + 1 {
		cut.Store(int64(at))
		r := v.open(url, terminal)
		if got, want := strings.Join(r.Seen, " ")+" "+r.Ended+r.Error, "1|tökén|🗺\nb| 1|done|{}| done"; got != want {
			t.Fatalf("cut at %d, before %q: expected %q, got %q", at, answer[at:], want, got)
		}
		if r := v.silent(url, terminal); r.Ended != "done" || r.Events != 2 || r.Error != "" {
			t.Fatalf("cut at %d, before %q, without a handler: expected 2 events and done, got %d and %s%s", at, answer[at:], r.Events, r.Ended, r.Error)
		}
	}
}

func TestAnAnswerThatStopsAtAnyByteNeverLooksWhole(t *testing.T) {
	var cut atomic.Int64
	url := serveRaw(t, func(conn *net.TCPConn) { write(conn, answer[:cut.Load()]) })
	v := newVU(t)
	headEnds := strings.Index(answer, "\r\n\r\n") + 4
	terminalEnds := strings.Index(answer, "{}\n\n") + 4
	for at := range len(answer) + 1 {
		cut.Store(int64(at))
		want, status := "done", 200
		switch {
		case at < headEnds:
			want, status = "reset", 0
		case at < terminalEnds:
			want = "truncated"
		}
		for _, r := range []result{v.open(url, terminal), v.silent(url, terminal)} {
			// The last line end of the chunked framing is not needed to know that the body is whole.
			if whole := at == len(answer); r.Ended != want || r.Status != status || (r.Error == "") != whole {
				t.Fatalf("stops at %d, before %q: expected %s with %d, got %s with %d and %q", at, answer[at:], want, status, r.Ended, r.Status, r.Error)
			}
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	for name, server := range map[string]http.HandlerFunc{
		"after a terminal event": stream("data: a\n\n", "event: done\ndata: {}\n\n"),
		"after late events":      stream("event: done\ndata: {}\n\n", "data: late\n\n"),
		"after the end":          stream("data: a\n\n"),
		"after a refusal":        func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 429) },
	} {
		var connections atomic.Int64
		s := httptest.NewUnstartedServer(server)
		s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
			if state == http.StateNew {
				connections.Add(1)
			}
		}
		s.Start()
		v := newVU(t)
		for range 5 {
			v.open(s.URL, terminal)
			v.silent(s.URL, terminal)
		}
		s.Close()
		expect(t, name, connections.Load(), 1)
	}
}

func TestWhatIsSent(t *testing.T) {
	requests := make(chan *http.Request, 1)
	bodies := make(chan string, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body := make([]byte, 100)
		n, _ := r.Body.Read(body)
		bodies <- string(body[:n])
		requests <- r
		w.Header().Set("Set-Cookie", "sticky=1")
	})
	v := newVU(t)
	v.silent(url+"/chat?q=1", `{ method: "post", body: '{"a":1}', headers: { "content-type": "application/json", Host: "api.example", "X-None": undefined } }`)
	r := <-requests
	expect(t, "method", r.Method, "POST")
	expect(t, "body", <-bodies, `{"a":1}`)
	expect(t, "host", r.Host, "api.example")
	expect(t, "uri", r.RequestURI, "/chat?q=1")
	expect(t, "accept", r.Header.Get("Accept"), "text/event-stream")
	expect(t, "content type", r.Header.Get("Content-Type"), "application/json")
	expect(t, "headers", len(r.Header["X-None"])+len(r.Header["Accept-Encoding"]), 0)

	v.silent(url, `{ headers: { accept: "application/json" } }`)
	r, _ = <-requests, <-bodies
	expect(t, "an Accept of the script", r.Header.Get("Accept"), "application/json")
	expect(t, "default method", r.Method, "GET")

	v.silent(strings.Replace(url, "http://", "http://user:secret@", 1), `{}`)
	r, _ = <-requests, <-bodies
	user, password, _ := r.BasicAuth()
	expect(t, "credentials of the URL", user+":"+password, "user:secret")
}
