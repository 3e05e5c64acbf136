//go:build !linux

package sse

import (
	"net"
	"net/http"
	"time"
)

// alarm wakes calls at their moments, as precisely as a Go timer.
type alarm struct{}

func (a *alarm) at(us int64) <-chan error {
	come := make(chan error, 1)
	time.AfterFunc(until(us), func() { come <- nil })
	return come
}

func stampReads(*http.Transport) {}

func readAt(net.Conn) time.Time { return time.Now() }
