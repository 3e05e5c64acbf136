package sse

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

func TestNamesOfEventsAreBoundedInNumberAndLengthAndHoldNoKey(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream("event: svc_sk_live_0123456789abcdef\ndata: 1\n\n")(w, r)
		for i := range 100 {
			stream(fmt.Sprintf("event: %d%s\ndata: 1\n\n", i, strings.Repeat("x", 5000)))(w, r)
		}
	})
	r := newVU(t).open(url, terminal)
	expect(t, "names", len(r.Names), namesKept)
	expect(t, "a key", r.Names[0], "svc_sk_live_...cdef")
	expect(t, "length", len(r.Names[1]), textMost)
}

func TestAStreamWithoutEndIsLeftAtABound(t *testing.T) {
	defer func(most int) { maxStreamBytes = most }(maxStreamBytes)
	maxStreamBytes = 1 << 20
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			stream(strings.Repeat("data: 1\n\n", 1000))(w, r)
		}
	})
	r := newVU(t).open(url, terminal)
	expect(t, "ended", r.Ended, "closed_by_client")
	expect(t, "error", r.Error, "answer-too-large")
}
