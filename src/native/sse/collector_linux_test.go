package sse

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

const goesOn = "data: a\n\n"

func TestAnEventThatWaitsToBeReadKeepsItsMoment(t *testing.T) {
	const apart = holdFor / 5
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range 4 {
			stream(goesOn)(w, r)
			time.Sleep(apart)
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
	r := newVU(t).silent(url, terminal)
	expect(t, "ended", r.Ended, "done")
	var gapsMs [4]float64
	if _, err := fmt.Sscanf(strings.ReplaceAll(r.Gaps, ",", " "), "%g %g %g %g", &gapsMs[0], &gapsMs[1], &gapsMs[2], &gapsMs[3]); err != nil {
		t.Fatalf("%v in %q", err, r.Gaps)
	}
	// A machine that stands still makes one gap longer and the next shorter: never both.
	for at := 1; at < len(gapsMs); at++ {
		if two := gapsMs[at-1] + gapsMs[at]; two < 1e3*apart.Seconds() {
			t.Errorf("expected two gaps of more than %s together, got %g ms of %v", apart, two, gapsMs)
		}
	}
}

func TestWhatCameBeforeAStreamIsCutIsCounted(t *testing.T) {
	written := make(chan struct{}, 1)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for range 10 {
			stream(goesOn)(w, r)
		}
		written <- struct{}{}
		silence(r)
	})
	for _, params := range []string{fmt.Sprintf(`{ timeout: %d }`, (holdFor / 2).Milliseconds()), `{ idleTimeout: 1000 }`} {
		r := newVU(t).silent(url, params)
		<-written
		expect(t, params+" ended", r.Ended, "timeout")
		expect(t, params+" events", r.Events, 10)
	}
}

func TestAStreamIsNotSilentWhileItsEventsWaitToBeRead(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for began := time.Now(); time.Since(began) < 3*holdFor; time.Sleep(holdFor / 40) {
			stream(goesOn)(w, r)
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
	var ends []string
	// A machine may stand still for as long; where waiting counted as silence, no stream would reach its end.
	for range 5 {
		ends = append(ends, newVU(t).silent(url, fmt.Sprintf(`{ idleTimeout: %d, terminal: { done: "done" } }`, (holdFor/2).Milliseconds())).Ended)
	}
	if !strings.Contains(strings.Join(ends, " "), "done") {
		t.Errorf("expected a stream that came to its end, got %v", ends)
	}
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
		v.run(fmt.Sprintf(`for (let i = 0; i < %d; i++) sse.begin(%q, %s, i, 0, 0, 0)`, streams, url, terminal))
		eventually(t, func() bool { return v.account()["in_flight"].(int) == 0 })
	}
	v.run(`sse.finish("10s", "1s"); sse.printed()`)
	lines := printedIn(t, path)
	expect(t, "streams", len(lines), 2*streams)
	for _, line := range lines {
		expect(t, "ended", line["ended"], "done")
		expect(t, "events", line["events"], events)
	}
}

func TestABreakOfACollectedStreamIsNamedAsOfAnyOther(t *testing.T) {
	url := serveRaw(t, func(conn *net.TCPConn) {
		write(conn, chunked(goesOn))
		time.Sleep(holdFor / 4) // lets the client take the stream over
		write(conn, "a\r\n")
		_ = conn.SetLinger(0)
	})
	r := newVU(t).silent(url, terminal)
	expect(t, "ended", r.Ended, "reset")
	expect(t, "events", r.Events, 1)
	if !strings.Contains(r.Error, "read tcp 127.0.0.1:") || !strings.Contains(r.Error, "read: connection reset by peer") {
		t.Errorf("expected the words of package net, got %q", r.Error)
	}
}
