package sse

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// end says how an exchange ended. Every exchange has exactly one of these nine ends.
type end string

const (
	endDone       end = "done"             // an event of terminal.done came
	endErrorEvent end = "error_event"      // an event of terminal.error came
	endEOF        end = "eof"              // the body ended as its framing says, without a terminal event
	endTruncated  end = "truncated"        // the body stopped before its framing says it ends, or without the last event that is required
	endReset      end = "reset"            // no connection, or it broke; status is 0 when that was before the head of the answer
	endTimeout    end = "timeout"          // one of the three time-outs, or the connection took too long to make
	endRefused    end = "refused"          // a whole answer that is no event stream
	endClosed     end = "closed_by_client" // close(), a handler that threw, an interrupted iteration, an event over the bound
	endNotSent    end = "not_sent"         // the budget did not let it leave, or the test ended while it waited for its turn
)

// timeoutError is the cause given to the context that a time-out cancels.
type timeoutError string

func (e timeoutError) Error() string { return string(e) }

// errGraceOver ends the wait for events after the terminal one.
var errGraceOver = errors.New("grace over")

// errNoLastEvent is the error of a body that ended in order without the required last event. src/contract/streams.ts uses the same word.
var errNoLastEvent = errors.New("no_last_event")

// classify returns the end and the cause of a failed round trip or read. It looks at the context first: after we cut a connection, the read only
// reports that.
func classify(ctx context.Context, err error) (end, error) {
	cause := context.Cause(ctx)
	timeout, isTimeout := as[timeoutError](cause)
	network, isNetwork := as[net.Error](err)
	switch {
	case isTimeout:
		return endTimeout, timeout
	case cause != nil:
		return endClosed, fmt.Errorf("interrupted: %w", cause)
	case isNetwork && network.Timeout():
		return endTimeout, fmt.Errorf("timeout: %w", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return endTruncated, err
	}
	return endReset, err
}

func as[T error](err error) (T, bool) {
	var found T
	is := errors.As(err, &found)
	return found, is
}

// outcome is the result of a call as far as the budget needs it. src/workload/budget.ts has the same for the other drivers.
type outcome struct {
	name    string // as the history counts it, without the subcode of a refusal: "200", "200 empty", "429", "edge 502", "indeterminate"
	left    bool   // its head was written, so the target may have seen it
	charged bool   // it may have been charged: a success, or no answer
	ours    bool   // we broke it off before an answer: that says nothing about the target
}

// isError reports whether the call got no answer (or a stream without one event), an answer outside the contract, or a server error. A refusal
// for overload is a normal answer.
func (o outcome) isError() bool {
	return strings.HasSuffix(o.name, " empty") || o.name == "indeterminate" || strings.HasPrefix(o.name, "edge ") || strings.HasPrefix(o.name, "5")
}

func (x *exchange) outcome() outcome {
	came := outcome{left: x.wire.sent.Load() != 0}
	switch cut := !x.Opened && x.end != endRefused && x.end != endEOF; {
	case x.Status == 0 || cut:
		came.name, came.ours, came.charged = "indeterminate", x.end == endClosed, came.left
	case hasCoding(x.header):
		came.name, came.charged = fmt.Sprintf("edge %d", x.Status), x.Status < http.StatusMultipleChoices
	case x.Status < http.StatusMultipleChoices:
		came.name, came.charged = x.admitted(), true
	default:
		came.name = refusal(x.Status, x.Body)
	}
	return came
}

// admitted returns the outcome of a success. A stream that was cut before its first event counts as no answer, and a JSON error in place of a
// stream as an answer.
func (x *exchange) admitted() string {
	status := fmt.Sprint(x.Status)
	if !x.request.isStream() || x.Events > 0 || x.end == endClosed {
		return status
	}
	if _, saysError := fieldsOf(x.Body)["error"]; saysError { // an opened stream has no Body
		return status
	}
	if x.end == endTruncated || x.end == endReset || x.end == endTimeout {
		return "indeterminate"
	}
	return status + " empty"
}

// fieldsOf returns the members of a JSON object, after a byte order mark or none; nil if the text is no object. Numbers stay text: one that no
// float64 can hold is still JSON, as for JSON.parse.
func fieldsOf(body string) (fields map[string]any) {
	text := strings.TrimPrefix(body, "\ufeff")
	if !json.Valid([]byte(text)) {
		return nil
	}
	reading := json.NewDecoder(strings.NewReader(text))
	reading.UseNumber()
	if reading.Decode(&fields) != nil {
		return nil
	}
	return fields
}

var subcode = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// isProblem reports whether a body is a problem document (RFC 9457).
func isProblem(fields map[string]any) bool {
	_, hasTitle := fields["title"].(string)
	return hasTitle
}

// isGateways reports whether a gateway wrote a refusal without a specified subcode, as isProblem and isGateways of src/contract/refusals.ts do
// together.
func isGateways(status int, fields map[string]any, said string) bool {
	_, hasDetail := fields["detail"]
	return isProblem(fields) || status/100 == 3 || slices.Contains([]int{46, 49, 52}, status/10) ||
		slices.Contains([]int{408, 413, 414, 431, 502, 504, 530}, status) ||
		slices.Contains([]int{403, 404, 405, 429}, status) && !hasDetail && !subcode.MatchString(said)
}

// specified holds the subcodes of each status, as REFUSALS of src/contract/refusals.ts.
var specified = map[int][]string{
	401: {"publishable_requires_session"},
	403: {
		"insufficient_scope", "tier_capability_not_allowed", "origin_required", "session_origin_mismatch", "product_not_allowed",
		"server_key_in_browser", "ip_not_allowed", "publishable_key_required", "sessions_disabled", "sessions_not_configured",
		"free_plan_publishable_only", "plan_required", "vendor_scope_requires_acknowledgement",
	},
	409: {"key_limit_reached"},
	422: {"malformed_body", "unknown_scope", "unknown_product", "publishable_live_requires_origins"},
	429: {
		"map_load_quota_exceeded", "map_load_hard_stop", "tile_access_restricted", "b2b_overloaded", "org_overloaded",
		"limiter_unavailable", "rate_limited",
	},
}

// alsoListed holds what only `detail` and `error` may say: GAP_REFUSALS and LEGACY_SUBCODES of src/contract/refusals.ts.
var alsoListed = map[int][]string{
	403: {"forbidden", "origin_not_allowed"}, 404: {"Not Found"}, 405: {"Method Not Allowed"}, 413: {"Payload Too Large"},
}

// hasSpecified reports whether a member of an answer, or of an object in it, is a subcode that the contract has for this status. As in
// subcodeElsewhere of src/contract/refusals.ts, rate_limited may be a gateway's own name in a problem document.
func hasSpecified(status int, fields map[string]any) bool {
	for name, value := range fields {
		inner, isObject := value.(map[string]any)
		if !isObject {
			inner = map[string]any{"": value}
		}
		isElsewhere := isObject || name != "detail" && name != "error"
		for _, text := range inner {
			isShared := text == "rate_limited" && isElsewhere && isProblem(fields)
			if !isShared && slices.Contains(specified[status], fmt.Sprint(text)) {
				return true
			}
		}
	}
	return false
}

// refusal returns the outcome of a refusal as readAnswer of src/contract/refusals.ts does, without its subcode.
func refusal(status int, body string) string {
	var fields map[string]any
	if !isTooLong(body) {
		fields = fieldsOf(body)
	}
	said, ok := fields["detail"].(string)
	if !ok {
		said, ok = fields["error"].(string)
	}
	_, hasDetail := fields["detail"]
	_, isList := fields["detail"].([]any)
	isWrongBody, isUnauthorized := status == http.StatusUnprocessableEntity, status == http.StatusUnauthorized
	// For these two statuses the contract has no subcode and allows any body.
	isPlain := isUnauthorized || status == http.StatusServiceUnavailable
	trimmed := strings.TrimSpace(body)
	switch {
	case hasSpecified(status, fields), ok && slices.Contains(alsoListed[status], said),
		ok && (isWrongBody || isPlain && !hasDetail || !isGateways(status, fields, said)),
		!ok && isWrongBody && isList,
		!ok && isPlain && (fields != nil || trimmed == ""),
		!ok && isUnauthorized && !strings.HasPrefix(trimmed, "<"):
		return fmt.Sprint(status)
	}
	return fmt.Sprintf("edge %d", status)
}
