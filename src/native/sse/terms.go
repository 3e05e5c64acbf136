package sse

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/grafana/sobek"
	"go.k6.io/k6/v2/js/common"
)

// charge is the meter that a call may be charged to, or "".
type charge string

const (
	chargeMapLoads charge = "map_loads"
	chargeAnalyses charge = "analyses"
)

// terms are what a process may still spend and how fast. A nil pointer or a zero is no bound, except in a budget, where zero is nothing.
type terms struct {
	budget        map[charge]int64 // requests under ""
	streamTime    *time.Duration
	maxPerS       float64
	stopErrorRate *float64
	tolerated     []string // beginnings of outcomes
}

func (t *terms) same(other *terms) bool {
	return reflect.DeepEqual(t, other)
}

func (t *terms) tolerates(outcome string) bool {
	return slices.ContainsFunc(t.tolerated, func(begins string) bool { return strings.HasPrefix(outcome, begins) })
}

// parseTerms reads the object that a script gives to sse.lease. A member that is misspelt would be a bound that does not hold, so it is
// an error.
func parseTerms(rt *sobek.Runtime, value sobek.Value) (*terms, error) {
	if common.IsNullish(value) {
		return nil, errors.New("sse.lease: expected an object such as { requests: 1000, maxPerS: 50 }")
	}
	t := &terms{budget: map[charge]int64{}}
	object := value.ToObject(rt)
	for _, key := range object.Keys() {
		if member := object.Get(key); !common.IsNullish(member) {
			if err := t.parse(key, member); err != nil {
				return nil, fmt.Errorf("sse.lease: %w", err)
			}
		}
	}
	return t, nil
}

func (t *terms) parse(key string, value sobek.Value) error {
	if key == "tolerated" {
		outcomes, ok := value.Export().([]any)
		if !ok {
			return errors.New("tolerated is to be a list of outcomes")
		}
		for _, outcome := range outcomes {
			t.tolerated = append(t.tolerated, fmt.Sprint(outcome))
		}
		return nil
	}
	number := value.ToFloat()
	if !(number >= 0) { // NaN as well
		return fmt.Errorf("%s is to be a number that is not negative, but it is %q", key, value.String())
	}
	switch key {
	case "requests":
		t.budget[""] = int64(number)
	case "map_loads", "analyses":
		t.budget[charge(key)] = int64(number)
	case "stream_seconds":
		limit := time.Duration(number * float64(time.Second))
		t.streamTime = &limit
	case "maxPerS":
		if number == 0 {
			return errors.New("maxPerS is to be more than 0")
		}
		t.maxPerS = number
	case "stopErrorRate":
		t.stopErrorRate = &number
	default:
		return fmt.Errorf("there is no member %q; there are requests, map_loads, analyses, stream_seconds, maxPerS, stopErrorRate and tolerated", key)
	}
	return nil
}
