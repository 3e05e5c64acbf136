package sse

import (
	"strconv"
	"strings"
	"time"

	"github.com/grafana/sobek"
)

// response is what open() returns to the script.
func (x *exchange) response(rt *sobek.Runtime) *sobek.Object {
	headers := rt.NewObject()
	for name, values := range x.header {
		_ = headers.Set(name, strings.Join(values, ", "))
	}
	text := ""
	if x.err != nil {
		text = x.err.Error()
	}
	started := !x.startedAt.IsZero()
	out := rt.NewObject()
	for _, field := range []struct {
		name  string
		value any
	}{
		{"url", x.request.url.URL}, {"status", x.status}, {"headers", headers}, {"error", text}, {"body", x.body},
		{"ended", string(x.end)}, {"opened", x.opened}, {"events", x.events}, {"late", x.late},
		{"names", strings.Join(x.names, "\n")}, {"gaps", x.gapsText()},
		{"held_us", x.held.Microseconds()},
		{"started_us", x.moment(started, 0)},
		{"connect_us", x.onWire(x.wire.connected.Load(), 0)},
		{"sent_us", x.onWire(x.wire.sent.Load(), nil)},
		{"first_us", x.onWire(x.wire.head.Load(), nil)},
		{"first_event_us", x.moment(x.events > 0, x.first)},
		{"last_event_us", x.moment(x.events > 0, x.last)},
		{"done_us", x.moment(started, x.done)},
	} {
		// Set fails on a frozen object or a throwing setter only, and this object is new.
		_ = out.Set(field.name, field.value)
	}
	return out
}

// gapsText is every gap in microseconds, as one text: a list of numbers would cost a script far more to make and to write out.
func (x *exchange) gapsText() string {
	if len(x.gaps) == 0 {
		return ""
	}
	text := make([]byte, 0, 7*len(x.gaps))
	for at, g := range x.gaps {
		if at > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, g.wide.Microseconds(), 10)
	}
	return string(text)
}

// moment gives microseconds since 1970 of what happened so long after the start, or null for what did not happen.
func (x *exchange) moment(happened bool, since time.Duration) any {
	if !happened {
		return nil
	}
	return unixMicro(x.startedAt.Add(since))
}

func (x *exchange) onWire(nanoseconds int64, otherwise any) any {
	if nanoseconds == 0 {
		return otherwise
	}
	return unixMicro(x.startedAt.Add(time.Duration(nanoseconds)))
}
