//go:build !linux

package sse

import "time"

// alarm wakes calls at their moments, as exactly as a timer of Go does.
type alarm struct{}

// at returns what is closed when a moment, in microseconds since 1970, has come.
func (a *alarm) at(us int64) (<-chan struct{}, error) {
	come := make(chan struct{})
	time.AfterFunc(until(us), func() { close(come) })
	return come, nil
}

// failed is why no moment comes any more, or nil.
func (a *alarm) failed() error {
	return nil
}
