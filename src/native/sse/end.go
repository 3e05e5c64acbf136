package sse

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"
)

// end says how an exchange ended. There are these nine and every exchange has exactly one.
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
	endNotSent    end = "not_sent"         // the lease did not let it leave, or the test ended while it waited for its turn
)

// timeoutError is the cause given to the context that a time-out cancels.
type timeoutError struct {
	what  string
	limit time.Duration
	code  string // of transportCode
}

func (e *timeoutError) Error() string {
	return fmt.Sprintf("timeout: %s within %s", e.what, e.limit)
}

// errGraceOver ends the wait for events after the terminal one. It is no error of anybody.
var errGraceOver = errors.New("grace over")

// errNoLastEvent is why a body that ended in order was no whole stream. src/contract/streams.ts has the same word.
var errNoLastEvent = errors.New("no_last_event")

// classify says what a failed round trip or read means. The context comes first: when we cut the connection, what the read says is only
// the echo. What is neither a time-out nor an early end is a broken connection; the text says which way.
func classify(ctx context.Context, err error) (end, error) {
	cause := context.Cause(ctx)
	var timeout *timeoutError
	var network net.Error
	switch {
	case errors.As(cause, &timeout):
		return endTimeout, timeout
	case cause != nil:
		return endClosed, fmt.Errorf("interrupted: %w", cause)
	case errors.As(err, &network) && network.Timeout():
		return endTimeout, fmt.Errorf("timeout: %w", err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return endTruncated, err
	default:
		return endReset, err
	}
}
