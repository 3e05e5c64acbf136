// Package sse is the k6 extension k6/x/sse: server-sent events read and timed in Go, every stream ended in exactly one named way.
//
// It keeps the script interface of the community extension of that name (open(url, params, setup), client.on, client.close) and adds
// what a judge needs: which end a stream came to, the body of a refusal, time-outs for silence, how many events came after the last
// one, and wall-clock times. open() reads on the VU's own goroutine and blocks it until the exchange is over; begin() does not (beside.go).
package sse

import (
	"errors"
	"fmt"
	"math"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/js/common"
	"go.k6.io/k6/v2/js/modules"
)

func init() {
	modules.Register("k6/x/sse", NewRootModule())
}

// RootModule makes one ModuleInstance for each VU, which share what is here. Use NewRootModule.
type RootModule struct {
	ledger  *ledger
	board   *board
	turns   *turns
	printer *printer
	beside  *beside
}

// NewRootModule makes a module with all of these of its own; a process has one.
func NewRootModule() *RootModule {
	return &RootModule{ledger: newLedger(), board: newBoard(), turns: newTurns(), printer: &printer{}, beside: newBeside()}
}

// ModuleInstance is the module as one VU sees it.
type ModuleInstance struct {
	vu        modules.VU
	metrics   streamMetrics
	ledger    *ledger
	board     *board
	turns     *turns
	printer   *printer
	beside    *beside
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
	return &ModuleInstance{
		vu: vu, metrics: metrics, ledger: r.ledger, board: r.board, turns: r.turns, printer: r.printer, beside: r.beside,
	}
}

// Exports gives scripts `import sse from "k6/x/sse"` and `import { open } from "k6/x/sse"`. The functions are made here, once: k6 makes them
// anew for each look into a map of Go's.
func (m *ModuleInstance) Exports() modules.Exports {
	named := map[string]any{
		"open": m.open, "lease": m.lease, "spent": m.ledger.account, "settled": m.settled, "drain": m.drain,
		"waitUntil": m.waitUntil, "arrivals": m.arrivals, "turn": m.turn, "turnUs": m.turnUs,
		"recall": m.board.recall, "remember": m.board.remember, "claim": m.claim,
		"printTo": m.printer.open, "print": m.printer.text, "printCall": m.printCall, "printed": m.printer.flush,
		"callsAtOnce": m.beside.allow, "kind": m.kind, "begin": m.begin, "finish": m.finish,
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

// open makes one exchange and returns its result. It throws for what is wrong in the script (the URL, a parameter, a handler that threw)
// and never for what the server or the network did: that is in the result.
func (m *ModuleInstance) open(url sobek.Value, args ...sobek.Value) (*sobek.Object, error) {
	state, rt := m.vu.State(), m.vu.Runtime()
	if state == nil {
		return nil, common.NewInitContextError("sse.open cannot be called in the init context: call it in a VU function, setup or teardown")
	}
	params, setup, err := splitArguments(args)
	if err != nil {
		return nil, err
	}
	kind, err := parseKind(rt, params)
	if err != nil {
		return nil, fmt.Errorf("sse.open: %w", err)
	}
	request, err := kind.with(rt, state, url)
	if err != nil {
		return nil, fmt.Errorf("sse.open: %w", err)
	}
	client := newClient(rt)
	if setup != nil {
		if _, err := setup(sobek.Undefined(), client.object()); err != nil {
			return nil, err
		}
	}
	m.settled()
	x := &exchange{request: request, client: client, state: state, ledger: m.ledger}
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

// lease sets what the process may spend and how fast. It may be called in the init context, where every VU calls it.
func (m *ModuleInstance) lease(value sobek.Value) error {
	terms, err := parseTerms(m.vu.Runtime(), value)
	if err != nil {
		return err
	}
	return m.ledger.lease(terms)
}

// settled is called by a script when it has written down what came of its last call; the next open says the same.
func (m *ModuleInstance) settled() {
	for ; m.unsettled > 0; m.unsettled-- {
		m.ledger.settled()
	}
}

// waitUntil blocks until a moment, in microseconds since 1970 by the clock of this process, and returns true; at once where it is past.
// It returns false when the iteration or all sending ended before it.
func (m *ModuleInstance) waitUntil(moment sobek.Value) (bool, error) {
	if m.vu.State() == nil {
		return false, common.NewInitContextError("sse.waitUntil cannot be called in the init context: call it in a VU function")
	}
	us := moment.ToFloat()
	if math.IsNaN(us) {
		return false, fmt.Errorf("sse.waitUntil: the moment is to be microseconds since 1970, but it is %q", moment.String())
	}
	m.settled()
	return m.ledger.waitUntil(m.vu.Context(), int64(us))
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

// turn rests until an arrival is due and returns its number, a little before its moment, or -1 where the iteration or all sending ended
// before. The VU brings an arrival by its number, and the zero of the schedule (microseconds since 1970); it is given the next that is due,
// which is another where more VUs rest.
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
	m.played = m.turns.take(m.vu.Context(), m.ledger.ended, own, ahead)
	return m.played.number, nil
}

// turnUs is the moment of the arrival that the VU was given last.
func (m *ModuleInstance) turnUs() int64 {
	return m.played.us
}

// drain blocks the first VU that calls it until all calls that left are settled, at most for limit, and returns true; it returns false
// to every other VU at once. A script that is to end the test calls exec.test.abort after it.
func (m *ModuleInstance) drain(limit sobek.Value) (bool, error) {
	atMost, err := duration("limit", limit)
	if err != nil {
		return false, err
	}
	m.settled()
	return m.ledger.drain(m.vu.Context(), atMost), nil
}
