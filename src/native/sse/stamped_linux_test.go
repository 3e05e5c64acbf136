package sse

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"go.k6.io/k6/v2/lib/netext"
)

const goesOn = "data: a\n\n"

// sometime tries what a machine that stands still may spoil: what is wrong is wrong each time. try gives the problem, or "".
func sometime(t *testing.T, try func() string) {
	t.Helper()
	problem := ""
	for range 5 {
		if problem = try(); problem == "" {
			return
		}
	}
	t.Error(problem)
}

func TestWhatIsReadLateKeepsTheMomentWhenItCame(t *testing.T) {
	const late = 100 * time.Millisecond
	url := serveConns(t, func(conn *net.TCPConn, _ *bufio.Reader) {
		write(conn, "a")
		time.Sleep(late)
		write(conn, "b")
		time.Sleep(2 * late)
	})
	sometime(t, func() string {
		transport := &http.Transport{DialContext: netext.NewDialer(net.Dialer{}, nil).DialContext}
		stampReads(transport)
		conn, err := transport.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		var came []time.Time
		for range 2 {
			if n, err := conn.Read(make([]byte, 1)); n != 1 || err != nil {
				t.Fatalf("expected a byte, got %d and %v", n, err)
			}
			came = append(came, readAt(conn))
			time.Sleep(2 * late)
		}
		apart, waited := came[1].Sub(came[0]), time.Since(came[1])
		if apart < late/2 || apart > late*3/2 || waited < late/2 {
			return fmt.Sprintf("expected bytes %s apart, the second read %s after it came, got %s and %s", late, late, apart, waited)
		}
		return ""
	})
}

// tooClose is the problem with a stream that should have come to its end with so many gaps of such a length, or "".
func tooClose(t *testing.T, r result, gaps int, apart time.Duration) string {
	t.Helper()
	if r.Ended != "done" || len(r.Gaps) != gaps {
		return fmt.Sprintf("expected %d gaps, then done, got %v us and %s", gaps, r.Gaps, r.Ended)
	}
	for _, us := range r.Gaps {
		if float64(us) < 0.5e6*apart.Seconds() {
			return fmt.Sprintf("expected gaps of %s, got %v us", apart, r.Gaps)
		}
	}
	return ""
}

// serveApart is a stream of events that are so far apart.
func serveApart(t *testing.T, events int, apart time.Duration) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range events {
			stream(goesOn)(w, r)
			time.Sleep(apart)
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
}

func TestEventsAreAsFarApartAsTheyCame(t *testing.T) {
	const events, apart = 4, 100 * time.Millisecond
	url := serveApart(t, events, apart)
	sometime(t, func() string { return tooClose(t, newVU(t).silent(url, terminal), events, apart) })
}

func TestAnEventIsNoLaterThanTheSystemReceivedIt(t *testing.T) {
	const events, apart = 2, 100 * time.Millisecond
	url := serveApart(t, events, apart)
	sometime(t, func() string {
		// The second is there, and is not read before the third is nearly due.
		handler := fmt.Sprintf("if (seen.length === 1) for (const until = Date.now() + %d; Date.now() < until;);", (apart * 19 / 10).Milliseconds())
		return tooClose(t, newVU(t).open(url, terminal, handler), events, apart)
	})
}

func TestWhatCameBeforeAStreamIsCutIsCounted(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range 10 {
			stream(goesOn)(w, r)
		}
		silence(r)
	})
	for _, cut := range []string{"timeout", "idleTimeout"} {
		sometime(t, func() string {
			r := newVU(t).silent(url, fmt.Sprintf(`{ %s: %d }`, cut, 250))
			if r.Ended == "timeout" && r.Events == 10 {
				return ""
			}
			return fmt.Sprintf("%s: expected 10 events, then timeout, got %d and %s", cut, r.Events, r.Ended)
		})
	}
}

func TestAStreamIsNotSilentWhileItsEventsCome(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for began := time.Now(); time.Since(began) < 1500*time.Millisecond; time.Sleep(12 * time.Millisecond) {
			stream(goesOn)(w, r)
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
	sometime(t, func() string {
		r := newVU(t).silent(url, fmt.Sprintf(`{ idleTimeout: %d, terminal: { done: "done" } }`, 250))
		if r.Ended == "done" {
			return ""
		}
		return "expected a stream that came to its end, got " + r.Ended + ": " + r.Error
	})
}

func TestManyStreamsAtOnceLoseNoEvent(t *testing.T) {
	const streams, events = 100, 200.0
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range int(events) - 1 {
			stream(goesOn)(w, r)
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
	v := newVU(t)
	path := printing(v, streams)
	for range 2 { // the second time on the connections of the first
		v.run(fmt.Sprintf(`for (let i = 0; i < %d; i++) sse.begin(%q, sse.kind(%s), undefined, undefined, JSON.stringify({ i }), 0)`, streams, url, terminal))
		eventually(t, func() bool { return v.account()["cut"].(int) == 0 })
	}
	v.run(`sse.finish(10000, 1000); sse.printed()`)
	lines := printedIn(t, path)
	expect(t, "streams", len(lines), 2*streams)
	for _, line := range lines {
		expect(t, "ended", line["ended"], "done")
		expect(t, "events", line["events"], events)
		for _, gap := range line["gaps"].([]any) {
			if gap.(float64) < 0 {
				t.Fatalf("expected no gap below 0, got %v", line["gaps"])
			}
		}
	}
}

func TestABreakOfAStampedStreamIsNamedAsOfAnyOther(t *testing.T) {
	url := serveRaw(t, func(conn *net.TCPConn) {
		write(conn, chunked(goesOn))
		time.Sleep(125 * time.Millisecond) // lets the client read the first part alone
		write(conn, "a\r\n")
		_ = conn.SetLinger(0)
	})
	sometime(t, func() string {
		r := newVU(t).silent(url, terminal)
		if r.Ended == "reset" && r.Events == 1 && strings.Contains(r.Error, "read tcp 127.0.0.1:") && strings.Contains(r.Error, "read: connection reset by peer") {
			return ""
		}
		return fmt.Sprintf("expected an event and a reset in the words of package net, got %d, %s and %q", r.Events, r.Ended, r.Error)
	})
}

func TestAReadingMakesNoGarbage(t *testing.T) {
	url := serveConns(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		for _, err := reader.ReadByte(); err == nil; _, err = reader.ReadByte() {
			write(conn, "a")
		}
	})
	transport := &http.Transport{DialContext: netext.NewDialer(net.Dialer{}, nil).DialContext}
	stampReads(transport)
	conn, err := transport.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	buffer := make([]byte, 8)
	expect(t, "allocations", testing.AllocsPerRun(100, func() {
		_, _ = conn.Write(buffer[:1])
		_, _ = conn.Read(buffer)
	}), 0)
}
