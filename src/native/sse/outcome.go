package sse

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
)

// outcome is what became of a call, as far as the ledger has to know.
type outcome struct {
	name    string // as the history counts it, where it is an error: "503", "500 internal", "edge 502", "indeterminate"
	left    bool   // its head was written, so the target may have seen it
	refused bool   // a whole answer that is neither a success nor one that may have been lost on its way
	failed  bool   // no answer, or a status of 500 and above
	ours    bool   // we broke it off: that says nothing about the target
}

func (x *exchange) outcome() outcome {
	came := outcome{left: x.left.Load()}
	switch cut := !x.opened && x.end != endRefused && x.end != endEOF; {
	case x.end == endClosed:
		came.ours = true
	case x.status == 0 || cut:
		came.name, came.failed = "indeterminate", true
	case x.status >= http.StatusInternalServerError:
		// A gateway's 502 or 504 may stand for a call that was charged behind it; a 503 is a refusal by the contract.
		came.name, came.failed, came.refused = serverError(x.status, x.body), true, x.status == http.StatusServiceUnavailable
	default:
		came.refused = x.status >= http.StatusMultipleChoices
	}
	return came
}

// serverError names an answer as src/contract/envelopes.ts does.
func serverError(status int, body string) string {
	var fields map[string]any
	isObject := json.Unmarshal([]byte(body), &fields) == nil && fields != nil
	detail, hasDetail := fields["detail"].(string)
	flat, hasFlat := fields["error"].(string)
	switch plain := status == http.StatusServiceUnavailable; {
	case hasDetail:
		return fmt.Sprintf("%d %s", status, detail)
	case plain && (isObject || strings.TrimSpace(body) == ""):
		return fmt.Sprint(status)
	case hasFlat:
		return fmt.Sprintf("%d %s", status, flat)
	default:
		return fmt.Sprintf("edge %d", status)
	}
}
