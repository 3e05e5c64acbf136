package sse

import (
	"fmt"

	"github.com/grafana/sobek"

	"floodgate/native/eventstream"
)

// client is what the setup function is given. Handlers run on the VU's goroutine, between two reads, so time is taken before they are called.
type client struct {
	rt       *sobek.Runtime
	handlers map[string][]sobek.Callable
	closed   bool
	thrown   error // what a handler threw; nothing is called after it
}

func newClient(rt *sobek.Runtime) *client {
	return &client{rt: rt, handlers: map[string][]sobek.Callable{"open": nil, "event": nil, "error": nil}}
}

func (c *client) object() *sobek.Object {
	object := c.rt.NewObject()
	// Set fails on a frozen object or a throwing setter only, and this object is new.
	_ = object.Set("on", c.on)
	_ = object.Set("close", func() { c.closed = true })
	return object
}

func (c *client) on(event string, handler sobek.Value) error {
	handlers, known := c.handlers[event]
	if !known {
		return fmt.Errorf("client.on: there is no event %q; there are open, event and error", event)
	}
	call, ok := sobek.AssertFunction(handler)
	if !ok {
		return fmt.Errorf("client.on(%q): the handler is to be a function", event)
	}
	c.handlers[event] = append(handlers, call)
	return nil
}

func (c *client) listens(event string) bool {
	return len(c.handlers[event]) > 0
}

func (c *client) emit(event string, args ...sobek.Value) {
	for _, handler := range c.handlers[event] {
		if c.thrown != nil {
			return
		}
		if _, err := handler(sobek.Undefined(), args...); err != nil {
			c.thrown = err
		}
	}
}

// event is shown to scripts with the names in small letters, as k6 does.
type event struct{ ID, Name, Data, Comment string }

func (c *client) emitEvent(e eventstream.Event) {
	text := eventstream.Text
	c.emit("event", c.rt.ToValue(event{text(e.ID), text(e.Name), text(e.Data), text(e.Comment)}))
}

// stopped says that the script wants no more of the stream.
func (c *client) stopped() bool {
	return c.closed || c.thrown != nil
}
