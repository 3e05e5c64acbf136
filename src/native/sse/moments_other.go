//go:build !linux

package sse

import (
	"net"
	"net/http"
	"time"
)

// sleepUntil waits for a moment, as precisely as a Go timer.
func sleepUntil(us int64) error {
	time.Sleep(until(us))
	return nil
}

func stampReads(*http.Transport) {}

func readAt(net.Conn) time.Time { return time.Now() }
