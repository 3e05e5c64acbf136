package sse

import (
	"strconv"
	"strings"
	"time"

	"github.com/grafana/sobek"
)

// response is what open() returns to the script. It is worked out member by member when a script asks: most ask for a few.
type response struct {
	x  *exchange
	rt *sobek.Runtime
}

func (x *exchange) response(rt *sobek.Runtime) *sobek.Object {
	return rt.NewDynamicObject(&response{x, rt})
}

var members = []string{
	"url", "status", "headers", "error", "body", "ended", "opened", "events", "late", "names", "gaps", "held_us", "started_us", "connect_us",
	"sent_us", "first_us", "first_event_us", "last_event_us", "done_us",
}

// Get is nil for what the response does not have.
func (r *response) Get(name string) sobek.Value {
	if value, ok := r.x.member(name, r.rt); ok {
		return r.rt.ToValue(value)
	}
	return nil
}

func (x *exchange) member(name string, rt *sobek.Runtime) (any, bool) {
	started := !x.startedAt.IsZero()
	switch name {
	case "url":
		return x.request.url.URL, true
	case "status":
		return x.status, true
	case "headers":
		headers := rt.NewObject()
		for name, values := range x.header {
			// Set fails on a frozen object or a throwing setter only, and this object is new.
			_ = headers.Set(name, strings.Join(values, ", "))
		}
		return headers, true
	case "error":
		return x.text(), true
	case "body":
		return x.body, true
	case "ended":
		return string(x.end), true
	case "opened":
		return x.opened, true
	case "events":
		return x.events, true
	case "late":
		return x.late, true
	case "names":
		return strings.Join(x.names, "\n"), true
	case "gaps":
		return string(x.appendGaps(make([]byte, 0, 7*len(x.gaps)))), true
	case "held_us":
		return x.held.Microseconds(), true
	case "started_us":
		return x.moment(started, 0), true
	case "connect_us":
		return x.onWire(x.wire.connected.Load(), 0), true
	case "sent_us":
		return x.onWire(x.wire.sent.Load(), nil), true
	case "first_us":
		return x.onWire(x.wire.head.Load(), nil), true
	case "first_event_us":
		return x.moment(x.events > 0, x.first), true
	case "last_event_us":
		return x.moment(x.events > 0, x.last), true
	case "done_us":
		return x.moment(started, x.done), true
	}
	return nil, false
}

// Set, Delete: nobody changes what came.
func (r *response) Set(string, sobek.Value) bool { return false }
func (r *response) Delete(string) bool           { return false }

// Has, Keys: for `in`, spreading and JSON.stringify.
func (r *response) Has(name string) bool { return r.Get(name) != nil }
func (r *response) Keys() []string       { return members }

// text is what broke, or "".
func (x *exchange) text() string {
	if x.err == nil {
		return ""
	}
	return x.err.Error()
}

// appendGaps writes every gap in microseconds, with commas between them: a list of numbers would cost a script far more to make.
func (x *exchange) appendGaps(text []byte) []byte {
	for at, gap := range x.gaps {
		if at > 0 {
			text = append(text, ',')
		}
		text = strconv.AppendInt(text, gap.Microseconds(), 10)
	}
	return text
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
