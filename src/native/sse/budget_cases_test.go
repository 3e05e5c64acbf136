package sse

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
	"time"
)

type settled struct {
	Outcome string
	Status  int // with the body, an answer that the outcome is read from
	Body    string
	Sent    *bool
	Charged bool
}

type budgetCase struct {
	Name   string
	Budget map[string]any
	Stated map[string]any
	Steps  []struct {
		At    float64
		Times int
		Take  *struct {
			Charge charge
			Stream bool
		}
		Gives    string
		LeavesAt float64
		Then     *settled
		Settle   int
		settled
	}
	Spent   map[string]float64
	Stopped struct{ By, Reason any }
}

// src/workload/budget.test.ts plays the same cases.
func TestTheCasesThatEveryLanguagePlays(t *testing.T) {
	text, err := os.ReadFile("../../workload/budget-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []budgetCase
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) { c.play(t) })
	}
}

func (c *budgetCase) play(t *testing.T) {
	v := newVU(t)
	if c.Stated != nil {
		c.Budget["stated"] = c.Stated
	}
	bounds, err := boundsOf(v.VU.Runtime().ToValue(c.Budget))
	if err != nil {
		t.Fatal(err)
	}
	b := newBudget()
	if err := b.set(bounds); err != nil {
		t.Fatal(err)
	}
	type taken struct {
		kind     charge
		isStream bool
	}
	var all []taken
	settle := func(call taken, now time.Time, what settled) {
		if call.isStream {
			b.streamEnded(now)
		}
		if what.Status != 0 {
			what.Outcome = refusal(what.Status, what.Body)
		}
		b.callEnded(now, call.kind, outcome{name: what.Outcome, left: what.Sent == nil || *what.Sent, charged: what.Charged})
	}
	zero := time.Now()
	moment := func(ms float64) time.Time { return zero.Add(time.Duration(ms * float64(time.Millisecond))) }
	for _, step := range c.Steps {
		now := moment(step.At)
		if step.Take == nil {
			settle(all[step.Settle], now, step.settled)
			continue
		}
		for range max(1, step.Times) {
			call := taken{step.Take.Charge, step.Take.Stream}
			wait, freed, err := b.try(now, call.kind, call.isStream)
			leavesAt := step.At
			if wait > 0 {
				leavesAt += float64(wait) / float64(time.Millisecond)
				wait, freed, err = b.try(now.Add(wait), call.kind, call.isStream)
			}
			gave := "leave"
			if err != nil {
				gave = "stop"
			} else if freed != nil {
				gave = "wait"
			}
			if wanted := max(step.Gives, "leave"); gave != wanted || wait != 0 {
				t.Fatalf("at %g: expected %s, got %s", step.At, wanted, gave)
			}
			if gave != "leave" {
				continue
			}
			if wanted := max(step.At, step.LeavesAt); math.Abs(leavesAt-wanted) > 0.005 {
				t.Errorf("at %g: expected it to leave at %g, got %g", step.At, wanted, leavesAt)
			}
			if call.isStream {
				b.streamBegan(now)
			}
			all = append(all, call)
			if step.Then != nil {
				settle(call, now, *step.Then)
			}
		}
	}
	account := flat(b.account())
	for unit, want := range c.Spent {
		expect(t, unit, fmt.Sprint(account[unit]), fmt.Sprint(want))
	}
	expect(t, "stopped", account["stopped"], c.Stopped.Reason)
	expect(t, "stopped by", account["stopped_by"], c.Stopped.By)
}
