// Package sse is two k6 extensions. k6/x/sse, for any script, reads and times server-sent events in Go and ends every stream in exactly one
// named way; it has the interface of the community's extension of that name (open(url, params, setup), client.on, client.close) and adds what
// a judge needs. k6/x/floodgate has that and what Floodgate's own scenarios need: budget, schedule, lines for the runner, calls that no VU
// waits for (begin, beside.go). scenarios/k6-x-sse.d.ts says what each function does.
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
)

func init() {
	own := NewRootModule()
	modules.Register("k6/x/floodgate", own)
	modules.Register("k6/x/sse", forAll(own))
}

// shared is what all VUs of the process have together.
type shared struct {
	budget  *budget
	board   *board
	turns   *turns
	printer *printer
	beside  *beside
}

// RootModule makes one ModuleInstance for each VU. Use NewRootModule.
type RootModule struct {
	shared
	isForAll bool // it has what any script may use, and not what only Floodgate's scenarios do
}

// NewRootModule makes a module with nothing spent; a process has one.
func NewRootModule() *RootModule {
	return &RootModule{shared: shared{budget: newBudget(), board: newBoard(), turns: &turns{}, printer: &printer{}, beside: newBeside()}}
}

func forAll(own *RootModule) *RootModule {
	return &RootModule{shared: own.shared, isForAll: true}
}

// ModuleInstance is the module as one VU sees it.
type ModuleInstance struct {
	shared
	isForAll  bool
	vu        modules.VU
	metrics   streamMetrics
	last      *exchange // the VU's newest, for printCall
	played    arrival   // what turn gave it last
	begins    bool      // its last call was made beside it, so it need not wait for the next either
	unsettled int       // calls of the VU that were let go, and of which the script may not have taken note
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
	return &ModuleInstance{shared: r.shared, isForAll: r.isForAll, vu: vu, metrics: metrics}
}

// Exports gives scripts `import sse from "k6/x/sse"` and `import { open } from "k6/x/sse"`. The functions are made once: k6 makes them anew
// for each look into a map of Go's.
func (m *ModuleInstance) Exports() modules.Exports {
	named := map[string]any{
		"open": m.open, "budget": m.setBudget, "spent": m.budget.account, "settled": m.settled, "drain": m.drain,
		"waitUntil": m.waitUntil, "arrivals": m.arrivals, "turn": m.turn, "turnUs": func() int64 { return m.played.us },
		"recall": m.board.recall, "remember": m.board.remember, "claim": m.board.claim,
		"printTo": m.printer.open, "print": m.printer.text, "printCall": m.printCall, "printMint": m.printMint, "printed": m.printer.flush,
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
		_ = all.Set(name, value) // fails on a frozen object alone
	}
	return modules.Exports{Default: all, Named: named}
}

// exchange is a call of a kind, with headers and a body of its own, which may be undefined.
func (m *ModuleInstance) exchange(k *kind, c *client, url, headers, body sobek.Value) (*exchange, error) {
	state := m.vu.State()
	request, err := k.with(m.vu.Runtime(), state, url, headers, body)
	if err != nil {
		return nil, err
	}
	out, err := request.http()
	return &exchange{request: request, client: c, state: state, budget: m.budget, out: out}, err
}

// open makes one exchange and returns its result. It throws for what is wrong in the script (the URL, a parameter, a handler that threw)
// and never for what the server or the network did: that is in the result.
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

// settled is called by a script when it has written down what came of its last call; the next open says the same.
func (m *ModuleInstance) settled() {
	for ; m.unsettled > 0; m.unsettled-- {
		m.budget.settled()
	}
}

func (m *ModuleInstance) waitUntil(us float64) (bool, error) {
	if m.vu.State() == nil {
		return false, common.NewInitContextError("sse.waitUntil cannot be called in the init context: call it in a VU function")
	}
	if math.IsNaN(us) {
		return false, errors.New("sse.waitUntil: the moment is to be microseconds since 1970, but it is NaN")
	}
	m.settled()
	return m.budget.waitUntil(m.vu.Context(), int64(us))
}

// arrivals keeps the schedule for all VUs, microseconds from its zero. Each VU calls it in the init context, and the first is asked for it.
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
	if m.vu.State() == nil {
		return 0, common.NewInitContextError("sse.turn cannot be called in the init context: call it in a VU function")
	}
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
	m.played = m.turns.take(m.vu.Context(), m.budget.ended, own, ahead)
	return m.played.number, nil
}

// drain is to be followed by exec.test.abort in a script that is to end the test.
func (m *ModuleInstance) drain(limitMs float64) bool {
	m.settled()
	return m.budget.drain(m.vu.Context(), inMilliseconds(limitMs))
}

func inMilliseconds(ms float64) time.Duration {
	return time.Duration(ms * float64(time.Millisecond))
}

// printCall prints what came of the VU's last call of the schedule, once.
func (m *ModuleInstance) printCall(i, step, attempt int64, intendedUs float64, isSession bool) error {
	return m.printLast(line{Type: "call", made: &made{i, step, attempt, int64(intendedUs)}}, isSession)
}

// printMint prints what came of the VU's last call, which minted a session.
func (m *ModuleInstance) printMint(id, of, product string) error {
	return m.printLast(line{Type: "mint", minted: &minted{id, of, product}}, true)
}

func (m *ModuleInstance) printLast(l line, isSession bool) error {
	x := m.last
	m.last = nil
	if x == nil || x.startedAt.IsZero() { // printed before, or not sent
		return nil
	}
	return m.printer.write(x.line(l, isSession))
}

// board is what one VU may write and another read: k6 has nothing for that. Scenarios keep session tokens here.
type board struct {
	mu      sync.Mutex
	notes   map[string]string
	claimed map[string]time.Time // until when nobody else is to see to it
}

func newBoard() *board {
	return &board{notes: map[string]string{}, claimed: map[string]time.Time{}}
}

// recall gives what was last remembered under a name, or null.
func (b *board) recall(name string) any {
	b.mu.Lock()
	defer b.mu.Unlock()
	if note, ok := b.notes[name]; ok {
		return note
	}
	return nil
}

// remember keeps a text for all VUs and ends the claim on its name.
func (b *board) remember(name, note string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.notes[name] = note
	delete(b.claimed, name)
}

// claim is true for the first VU that asks: it is to see to the name, and no other for so long, unless it remembers something before.
func (b *board) claim(name string, limitMs float64) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	isFree := !now.Before(b.claimed[name])
	if isFree {
		b.claimed[name] = now.Add(inMilliseconds(limitMs))
	}
	return isFree
}
