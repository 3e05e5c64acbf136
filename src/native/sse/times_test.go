package sse

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestAConnectionThatWasThereHasNoMomentOfItsOwn(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) { _, _ = w.Write([]byte("{}")) })
	v := newVU(t)
	first, second := v.silent(url, "{}"), v.silent(url, "{}")
	if first.ConnUs < *first.StartUs || first.ConnUs > *first.SentUs {
		t.Errorf("expected the first connection between %d and %d, got %d", *first.StartUs, *first.SentUs, first.ConnUs)
	}
	expect(t, "connect of the second call", second.ConnUs, 0)
	if *second.SentUs < *second.StartUs || *second.HeadUs < *second.SentUs {
		t.Errorf("expected started <= sent <= head, got %d %d %d", *second.StartUs, *second.SentUs, *second.HeadUs)
	}
}

func TestNothingWasSentWhereThereIsNoConnection(t *testing.T) {
	r := newVU(t).silent("http://127.0.0.1:1/", "{}")
	expect(t, "ended", r.Ended, "reset")
	expect(t, "connect", r.ConnUs, 0)
	if r.StartUs == nil || r.SentUs != nil || r.HeadUs != nil {
		t.Errorf("expected a start and nothing else, got %v %v %v", r.StartUs, r.SentUs, r.HeadUs)
	}
}

func TestTheHeadIsTimedApartFromTheFirstEvent(t *testing.T) {
	const pause = 50 * time.Millisecond
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.(http.Flusher).Flush()
		for _, frame := range []string{"event: token\ndata\n\n", "event: token\ndata\n\n", "event: done\ndata\n\n"} {
			time.Sleep(pause)
			_, _ = w.Write([]byte(frame))
			w.(http.Flusher).Flush()
		}
	})
	r := newVU(t).silent(url, terminal)
	if late := time.Duration(*r.FirstUs-*r.HeadUs) * time.Microsecond; late < pause/2 {
		t.Errorf("expected the first event some %s after the head, got %s", pause, late)
	}
	expect(t, "names", fmt.Sprint(r.Names), "[token done]")
	expect(t, "the last event is the terminal one", *r.LastUs, *r.DoneUs)
	var sum int64
	for _, us := range r.Gaps {
		sum += us
	}
	expect(t, "gaps", len(r.Gaps), 2)
	if apart := *r.LastUs - *r.FirstUs; apart < sum || apart > sum+2 {
		t.Errorf("expected the gaps to add up to %d us, got %d", apart, sum)
	}
}

// A kept connection that breaks under a request: net/http would send it again, and the target would see one call twice.
func TestNoRequestIsSentTwice(t *testing.T) {
	var asked atomic.Int64
	url := serveConns(t, func(conn *net.TCPConn, reader *bufio.Reader) {
		for n := 0; ; n++ {
			if _, err := http.ReadRequest(reader); err != nil {
				return
			}
			asked.Add(1)
			if n > 0 {
				return
			}
			write(conn, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
		}
	})
	for _, method := range []string{"GET", "POST", "HEAD"} {
		v := newVU(t)
		asked.Store(0)
		v.silent(url, "{}")
		r := v.silent(url, fmt.Sprintf(`{ method: %q }`, method))
		expect(t, method+" ended", r.Ended, "reset")
		expect(t, method+" requests seen", asked.Load(), 2)
	}
}

func TestAGetHasNoBody(t *testing.T) {
	seen := make(chan string, 2)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		seen <- fmt.Sprint(r.Method, r.ContentLength, r.TransferEncoding, r.Header["Content-Length"])
	})
	v := newVU(t)
	v.silent(url, "{}")
	v.silent(url, `{ method: "POST" }`)
	expect(t, "GET", <-seen, "GET0 [] []")
	expect(t, "POST", <-seen, "POST0 [] [0]")
}

func TestAStreamIsLeftAfterItsEvents(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream("data: a\n\n", "data: b\n\n")(w, r)
		silence(r)
	})
	r := newVU(t).silent(url, `{ closeAfterEvents: 2 }`)
	expect(t, "ended", r.Ended, "closed_by_client")
	expect(t, "events", r.Events, 2)
	if said := newVU(t).throws(fmt.Sprintf(`sse.open(%q, { closeAfterEvents: 0 })`, url)); !strings.Contains(said, "from 1 on") {
		t.Errorf("expected to be told what closeAfterEvents is, got %s", said)
	}
}

func TestWaitUntilIsNotOverBeforeItsMoment(t *testing.T) {
	v := newVU(t)
	moment := unixMicro(time.Now().Add(60 * time.Millisecond))
	for range 2 { // the second time it is past
		if _, err := v.within(fmt.Sprintf(`sse.waitUntil(%d); ({})`, moment)); err != nil {
			t.Fatal(err)
		}
		if now := unixMicro(time.Now()); now < moment {
			t.Errorf("expected to wait until %d, came back at %d", moment, now)
		}
	}
}

func TestWaitUntilEndsWhenNothingMayLeaveAnyMore(t *testing.T) {
	root := NewRootModule()
	v := newVUOf(t, root)
	time.AfterFunc(30*time.Millisecond, func() {
		root.budget.end(&stop{"asked", "over"})
	})
	if _, err := v.within(fmt.Sprintf(`sse.waitUntil(%d); ({})`, unixMicro(time.Now().Add(time.Hour)))); err != nil {
		t.Fatal(err)
	}
}
