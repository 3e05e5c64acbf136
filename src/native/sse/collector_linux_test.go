package sse

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

const goesOn = "data: a\n\n"

// sometime tries what a machine that stands still may spoil: where the collector is wrong, it is wrong each time. try gives the problem, or "".
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

// serveApart is a stream of events that are so far apart; began is told of the first.
func serveApart(t *testing.T, events int, apart time.Duration, began func()) string {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		for i := range events {
			stream(goesOn)(w, r)
			time.Sleep(apart)
			if i == 0 {
				began()
			}
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
}

// tooClose is the problem with a stream that should have come to its end with so many gaps of such a length, or "".
func tooClose(t *testing.T, r result, gaps int, apart time.Duration) string {
	t.Helper()
	came := strings.Split(r.Gaps, ",")
	if r.Ended != "done" || len(came) != gaps {
		return fmt.Sprintf("expected %d gaps, then done, got %s us and %s", gaps, r.Gaps, r.Ended)
	}
	for _, gap := range came {
		us, err := strconv.ParseFloat(gap, 64)
		if err != nil {
			t.Fatalf("%v in %q", err, r.Gaps)
		}
		if us < 0.5e6*apart.Seconds() {
			return fmt.Sprintf("expected gaps of %s, got %s us", apart, r.Gaps)
		}
	}
	return ""
}

func TestAnEventThatWaitsToBeReadKeepsItsMoment(t *testing.T) {
	const events, apart = 4, holdFor / 5
	url := serveApart(t, events, apart, func() {})
	sometime(t, func() string { return tooClose(t, newVU(t).silent(url, terminal), events, apart) })
}

// aside keeps the collector from reading for so long, when something comes to it.
func aside(collector *collector, length time.Duration) {
	collector.mu.Lock()
	time.AfterFunc(length, collector.mu.Unlock)
}

func TestAnEventIsNoLaterThanTheSystemReceivedIt(t *testing.T) {
	const events, apart = 2, holdFor / 5
	sometime(t, func() string {
		root := NewRootModule()
		collector := &root.beside.collector
		// The second is there, and is not read before the third is nearly due.
		url := serveApart(t, events, apart, func() { aside(collector, apart*9/10) })
		return tooClose(t, newVUOf(t, root).silent(url, terminal), events, apart)
	})
}

func TestEventsThatAreReadLateKeepTheirMomentsApart(t *testing.T) {
	const first, events, apart = 40, 3, 6 * time.Millisecond
	sometime(t, func() string {
		root := NewRootModule()
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			for range first { // the system acknowledges those of a new connection at once, whether they are read or not
				stream(goesOn)(w, r)
				time.Sleep(apart)
			}
			aside(&root.beside.collector, (events+1)*apart)
			for range events {
				time.Sleep(apart)
				stream(goesOn)(w, r)
			}
			time.Sleep(apart)
			stream("event: done\ndata: {}\n\n")(w, r)
		})
		r := newVUOf(t, root).silent(url, terminal)
		gaps := strings.Split(r.Gaps, ",")
		if r.Ended != "done" || len(gaps) != first+events {
			return fmt.Sprintf("expected %d gaps, then done, got %d and %s", first+events, len(gaps), r.Ended)
		}
		late := gaps[first:]
		// Of those that wait the system acknowledges one now and then, and joins the next to it.
		if joined := slices.Index(late, "0"); joined >= 0 && slices.Contains(late[joined+1:], "0") {
			return fmt.Sprintf("expected %d moments, %s apart, got gaps of %v us", events, apart, late)
		}
		return ""
	})
}

func TestWhatMayBeSeveralEventsIsReadByEvents(t *testing.T) {
	for stream, want := range map[string][]int{
		"":                                   {},
		"data: a\n":                          {},
		"data: a\n\n":                        {},
		"data: a\n\ndata: b":                 {9},
		"data: a\n\ndata: bc\n\ndata: d\n\n": {9, 10},
		"data: a\r\n\r\ndata: b\r\n\r\n":     {11},
		"9\r\ndata: a\n\n\r\n9\r\ndata: b\n\n\r\n": {14},
		"9\r\ndata: a\n\n\r\n0\r\n\r\n":            {14},
	} {
		if got := sizesOfEvents([]int{}, []byte(stream)); !slices.Equal(got, want) {
			t.Errorf("%q: expected %v, got %v", stream, want, got)
		}
	}
	if got := sizesOfEvents(nil, bytes.Repeat([]byte(goesOn), 10*apartMost)); len(got) != apartMost {
		t.Errorf("expected %d readings at most, got %d", apartMost, len(got))
	}
}

func TestOnAConnectionOfAnEarlierStreamNothingIsLaterThanTheSystemReceivedIt(t *testing.T) {
	const late = 100 * time.Millisecond
	root := NewRootModule()
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/first" {
			defer aside(&root.beside.collector, late)
		}
		if r.URL.Path == "/refused" {
			w.WriteHeader(http.StatusTooManyRequests)
			return
		}
		for range 3 {
			stream(goesOn)(w, r)
			time.Sleep(holdFor / 40)
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
	for _, path := range []string{"/stream", "/refused"} {
		sometime(t, func() string {
			v := newVUOf(t, root)
			_ = v.silent(url+"/first", terminal)
			began := time.Now()
			r := v.silent(url+path, terminal)
			took := time.Since(began)
			if r.ConnUs != 0 || took < late {
				return fmt.Sprintf("expected a connection that was there and was read late, got %d us to connect, %s in all", r.ConnUs, took)
			}
			for name, us := range map[string]*int64{"head": r.HeadUs, "done": r.DoneUs} {
				if after := time.Duration(*us-*r.SentUs) * time.Microsecond; after > late*9/10 {
					return fmt.Sprintf("%s: expected the %s when it came, got %s after sending", path, name, after)
				}
			}
			return ""
		})
	}
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
			r := newVU(t).silent(url, fmt.Sprintf(`{ %s: %d }`, cut, (holdFor/2).Milliseconds()))
			if r.Ended == "timeout" && r.Events == 10 {
				return ""
			}
			return fmt.Sprintf("%s: expected 10 events, then timeout, got %d and %s", cut, r.Events, r.Ended)
		})
	}
}

func TestAStreamIsNotSilentWhileItsEventsWaitToBeRead(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for began := time.Now(); time.Since(began) < 3*holdFor; time.Sleep(holdFor / 40) {
			stream(goesOn)(w, r)
		}
		stream("event: done\ndata: {}\n\n")(w, r)
	})
	sometime(t, func() string {
		r := newVU(t).silent(url, fmt.Sprintf(`{ idleTimeout: %d, terminal: { done: "done" } }`, (holdFor/2).Milliseconds()))
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
		v.run(fmt.Sprintf(`for (let i = 0; i < %d; i++) sse.begin(%q, sse.kind(%s), undefined, undefined, i, 0, 0, 0)`, streams, url, terminal))
		eventually(t, func() bool { return v.account()["in_flight"].(int) == 0 })
	}
	v.run(`sse.finish("10s", "1s"); sse.printed()`)
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

func TestABreakOfACollectedStreamIsNamedAsOfAnyOther(t *testing.T) {
	url := serveRaw(t, func(conn *net.TCPConn) {
		write(conn, chunked(goesOn))
		time.Sleep(holdFor / 4) // lets the client hand the stream over
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
