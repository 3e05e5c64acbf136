// Package sse is two k6 extensions. k6/x/sse, for any script, reads and times server-sent events in Go and gives every stream exactly one of
// nine ends; it has the interface of the community's extension of that name (open(url, params, setup), client.on, client.close) and adds what
// a judge needs. k6/x/floodgate adds what Floodgate's own scenarios need: budget, schedule, lines for the runner, calls that no VU waits for
// (begin, beside.go). scenarios/k6-x-sse.d.ts documents each function.
package sse

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/js/common"
	"go.k6.io/k6/v2/js/modules"

	"floodgate/native/eventstream"
)

func init() {
	own := NewRootModule()
	modules.Register("k6/x/floodgate", own)
	modules.Register("k6/x/sse", forAll(*own))
}

// RootModule makes one ModuleInstance for each VU and holds what all VUs of the process share. Use NewRootModule.
type RootModule struct {
	budget   *budget
	board    *board
	turns    *turns
	printer  *printer
	beside   *beside
	isForAll bool // exports only what any script may use
}

// NewRootModule makes a module with nothing spent; a process has one.
func NewRootModule() *RootModule {
	return &RootModule{budget: newBudget(), board: &board{}, turns: &turns{}, printer: &printer{}, beside: newBeside()}
}

// forAll returns the module for any script, which shares the budget.
func forAll(own RootModule) *RootModule {
	own.isForAll = true
	return &own
}

// ModuleInstance is the module as one VU sees it.
type ModuleInstance struct {
	*RootModule
	vu        modules.VU
	metrics   streamMetrics
	last      *exchange // the VU's newest exchange, for printCall
	played    arrival   // the arrival that turn returned last
	begins    bool      // the VU's last call was one of begin, so it need not wait for the next call either
	unsettled int       // calls of the VU that were sent and that the script may not have recorded yet
}

var (
	_ modules.Module   = &RootModule{}
	_ modules.Instance = &ModuleInstance{}
)

// NewModuleInstance is called by k6 once for each VU that imports the module.
func (r *RootModule) NewModuleInstance(vu modules.VU) modules.Instance {
	metrics, err := registerMetrics(vu.InitEnv().Registry)
	if err != nil {
		common.Throw(vu.Runtime(), err)
	}
	return &ModuleInstance{RootModule: r, vu: vu, metrics: metrics}
}

// Exports supports default and named imports. The functions are converted once, because k6 would convert them at each access to a Go map.
func (m *ModuleInstance) Exports() modules.Exports {
	named := map[string]any{
		"open": m.open, "budget": m.setBudget, "spent": m.budget.account, "settled": m.settled, "drain": m.drain,
		"waitUntil": m.waitUntil, "arrivals": m.arrivals, "turn": m.turn, "turnUs": func() int64 { return m.played.us },
		"recall": m.board.recall, "remember": m.board.remember, "claim": m.board.claim,
		"printTo": m.printer.open, "printCall": m.printCall, "printed": m.printer.flush,
		"print":       func(line string) error { return m.printer.write([]byte(line)) },
		"callsAtOnce": m.beside.allow, "kind": m.kind, "begin": m.begin, "finish": m.finish,
	}
	if m.isForAll {
		named = map[string]any{"open": m.open}
	}
	rt := m.vu.Runtime()
	all := rt.NewObject()
	for name, function := range named {
		value := rt.ToValue(function)
		named[name] = value
		_ = all.Set(name, value) // fails only on a frozen object
	}
	return modules.Exports{Default: all, Named: named}
}

// exchange makes a call of a kind, with its own headers and body, which may be undefined.
func (m *ModuleInstance) exchange(k *kind, c *client, url, headers, body sobek.Value) (*exchange, error) {
	state := m.vu.State()
	request, err := k.with(m.vu.Runtime(), state, url, headers, body)
	return &exchange{request: request, client: c, state: state, budget: m.budget, record: record{Names: []string{}}}, err
}

// open makes one exchange. It throws for errors in the script (URL, parameter, handler), never for what the server or the network did.
func (m *ModuleInstance) open(url sobek.Value, args ...sobek.Value) (sobek.Value, error) {
	state, rt := m.vu.State(), m.vu.Runtime()
	if state == nil {
		return nil, common.NewInitContextError("sse.open cannot be called in the init context: call it in a VU function, setup or teardown")
	}
	params, setup, err := splitArguments(args)
	if err != nil {
		return nil, err
	}
	client := newClient(rt)
	kind, err := kindOf(rt, params)
	var x *exchange
	if err == nil {
		x, err = m.exchange(kind, client, url, nil, nil)
	}
	if err != nil {
		return nil, fmt.Errorf("sse.open: %w", err)
	}
	if setup != nil {
		if _, err := setup(sobek.Undefined(), client.object()); err != nil {
			return nil, err
		}
	}
	m.settled()
	x.transport = throughProxy(state.Transport, statedProxy())
	x.run(m.vu.Context())
	if x.granted {
		m.unsettled++
	}
	m.metrics.push(state, x)
	m.last, m.begins = x, false
	if client.thrown != nil {
		return nil, client.thrown
	}
	return x.response(rt), nil
}

// setBudget may be called in the init context, where every VU calls it.
func (m *ModuleInstance) setBudget(value sobek.Value) error {
	bounds, err := boundsOf(value)
	if err == nil {
		err = m.budget.set(bounds)
	}
	if err != nil {
		return fmt.Errorf("sse.budget: %w", err)
	}
	return nil
}

// settled is called by a script when it has recorded its last call; the next open implies it.
func (m *ModuleInstance) settled() {
	for ; m.unsettled > 0; m.unsettled-- {
		m.budget.settled()
	}
}

func (m *ModuleInstance) waitUntil(us float64) (bool, error) {
	m.settled()
	return m.budget.waitUntil(m.vu.Context(), int64(us))
}

// arrivals keeps the schedule for all VUs, in microseconds from its zero. Each VU calls it in the init context; only the first one's function runs.
func (m *ModuleInstance) arrivals(value sobek.Value) error {
	moments, ok := sobek.AssertFunction(value)
	if !ok {
		return errors.New("sse.arrivals takes a function that gives the moments")
	}
	return m.turns.schedule(func() (afterUs []float64, err error) {
		value, err := moments(sobek.Undefined())
		if err == nil {
			err = m.vu.Runtime().ExportTo(value, &afterUs)
		}
		return afterUs, err
	})
}

func (m *ModuleInstance) turn(number int64, zeroUs float64) (int64, error) {
	if math.IsNaN(zeroUs) {
		return 0, errors.New("sse.turn: the zero is to be microseconds since 1970, but it is NaN")
	}
	own, err := m.turns.arrival(number, int64(zeroUs))
	if err != nil {
		return 0, fmt.Errorf("sse.turn: %w", err)
	}
	m.settled()
	ahead := turnEarly
	if m.begins {
		ahead = turnAhead
	}
	m.played = m.turns.take(m.vu.Context(), m.budget.sending.Done(), own, ahead)
	return m.played.number, nil
}

// drain must be followed by exec.test.abort in a script that ends the test.
func (m *ModuleInstance) drain(limitMs float64) bool {
	m.settled()
	return m.budget.drain(m.vu.Context(), inMilliseconds(limitMs))
}

func inMilliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}

// printCall prints the result of the VU's last call, once.
func (m *ModuleInstance) printCall(place string, intendedUs float64, isSession bool) error {
	x := m.last
	m.last = nil
	if x == nil || x.startedAt.IsZero() { // printed before, or not sent
		return nil
	}
	return m.printer.write(x.line(place, int64(intendedUs), isSession))
}

// board shares texts between VUs, which k6 cannot do. Scenarios keep session tokens here. The zero value is ready.
type board struct {
	notes  sync.Map // texts by name
	claims sync.Map // by name, until when only the claiming VU renews the text
}

// recall returns the text last remembered under a name, or null.
func (b *board) recall(name string) any {
	note, _ := b.notes.Load(name)
	return note
}

// remember keeps a text for all VUs and ends the claim on its name.
func (b *board) remember(name, note string) {
	b.notes.Store(name, note)
	b.claims.Delete(name)
}

// claim returns true to one VU, which must then renew the name's text, and false to all others until the limit is over or a text is remembered.
func (b *board) claim(name string, limitMs float64) bool {
	now := time.Now()
	until := now.Add(inMilliseconds(limitMs))
	before, isClaimed := b.claims.LoadOrStore(name, until)
	return !isClaimed || !now.Before(before.(time.Time)) && b.claims.CompareAndSwap(name, before, until)
}

// client is passed to the setup function. Handlers run on the VU's goroutine between two reads, so times are taken before they are called.
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
		if c.thrown == nil {
			_, c.thrown = handler(sobek.Undefined(), args...)
		}
	}
}

// event has lower-case field names in scripts, by k6's conversion.
type event struct{ ID, Name, Data, Comment string }

func (c *client) emitEvent(e eventstream.Event) {
	text := eventstream.Text
	c.emit("event", c.rt.ToValue(event{text(e.ID), text(e.Name), text(e.Data), text(e.Comment)}))
}

// stopped reports whether the script wants no more of the stream.
func (c *client) stopped() bool {
	return c.closed || c.thrown != nil
}
