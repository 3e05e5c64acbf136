package sse

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// outcome is what became of a call, as far as the budget has to know. src/workload/budget.ts is the same for the other drivers.
type outcome struct {
	name    string // as the history counts it: "200", "429 b2b_overloaded", "503", "edge 502", "indeterminate"
	left    bool   // its head was written, so the target may have seen it
	charged bool   // it may have been charged: a success, or no answer
	ours    bool   // we broke it off before an answer: that says nothing about the target
}

// isError: no answer, an answer of nobody's contract, or a server error. A refusal of overload is a normal answer. A stream without one event
// is no answer: "200 empty" is said where it ended in order, and where it was cut before, its outcome is that of no answer here.
func (o outcome) isError() bool {
	return strings.HasSuffix(o.name, " empty") || o.name == "indeterminate" || strings.HasPrefix(o.name, "edge ") || strings.HasPrefix(o.name, "5")
}

func (x *exchange) outcome() outcome {
	came := outcome{left: x.wire.sent.Load() != 0}
	switch cut := !x.opened && x.end != endRefused && x.end != endEOF; {
	case x.status == 0 || cut:
		came.name, came.ours, came.charged = "indeterminate", x.end == endClosed, came.left
	case hasCoding(x.header):
		came.name, came.charged = fmt.Sprintf("edge %d", x.status), x.status < http.StatusMultipleChoices
	case x.status < http.StatusMultipleChoices:
		came.name, came.charged = x.admitted(), true
	default:
		came.name = refusal(x.status, x.body)
	}
	return came
}

// admitted names a success. A stream without one event is none: its name is that of no answer where it was cut before.
func (x *exchange) admitted() string {
	status := fmt.Sprint(x.status)
	switch isCut := x.end == endTruncated || x.end == endReset || x.end == endTimeout; {
	case !x.request.isStream() || x.events > 0 || x.end == endClosed:
		return status
	case x.opened && isCut:
		return "indeterminate"
	case !x.opened && saysError(x.body):
		return status + " error"
	default:
		return status + " empty"
	}
}

func saysError(body string) bool {
	var fields map[string]any
	if json.Unmarshal([]byte(body), &fields) != nil {
		return false
	}
	_, is := fields["error"]
	return is
}

var subcode = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// isGateways is that of src/contract/envelopes.ts, without the statuses for which the contract has words in `detail`.
func isGateways(status int, said string, hasDetail bool) bool {
	return status/100 == 3 || slices.Contains([]int{46, 49, 52}, status/10) || slices.Contains([]int{408, 414, 431, 502, 504, 530}, status) ||
		slices.Contains([]int{403, 404, 405, 429}, status) && !hasDetail && !subcode.MatchString(said)
}

// refusal names a refusal as readAnswer of src/contract/envelopes.ts does, as far as it matters whether it is an error.
func refusal(status int, body string) string {
	var fields map[string]any
	isObject := json.Unmarshal([]byte(body), &fields) == nil && fields != nil
	said, ok := fields["detail"].(string)
	_, hasDetail := fields["detail"]
	if !ok {
		said, ok = fields["error"].(string)
	}
	_, isList := fields["detail"].([]any)
	// The contract gives no subcode to these two, and any body.
	plain := status == http.StatusUnauthorized || status == http.StatusServiceUnavailable
	switch {
	case ok && isGateways(status, said, hasDetail):
		return fmt.Sprintf("edge %d", status)
	case ok:
		return fmt.Sprintf("%d %s", status, foreignName(said))
	case status == http.StatusUnprocessableEntity && isList, plain && (isObject || strings.TrimSpace(body) == ""):
		return fmt.Sprint(status)
	default:
		return fmt.Sprintf("edge %d", status)
	}
}
