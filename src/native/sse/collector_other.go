//go:build !linux

package sse

import (
	"context"
	"net"
	"time"
)

// collector reads no stream here: each is read by its own goroutine.
type collector struct{}

type collected struct{}

const holdFor time.Duration = 0

func (c *collector) dialing(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return dial
}

func collect(net.Conn) *collected        { return nil }
func collectedOf(net.Conn) *collected    { return nil }
func (c *collected) hold(bool)           {}
func (c *collected) lastRead() time.Time { return time.Now() }
func (c *collected) isBehind() bool      { return false }
