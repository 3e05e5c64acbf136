package sse

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A line waits at most so long in memory, for others to be written with it: a write each would cost more than the call itself.
const printEvery = 20 * time.Millisecond

// printer writes lines to a file for the one who started k6. console.log would wrap each in a log line of k6, which both sides then pay
// for, and write it by itself.
type printer struct {
	mu     sync.Mutex
	path   string
	buffer *bufio.Writer
	armed  bool // a flush is due
}

// open sets the file, which is appended to. It may be called in the init context, where every VU calls it with the same path.
func (p *printer) open(path string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buffer != nil {
		if p.path != path {
			return fmt.Errorf("sse.printTo: the process prints to %s already; all VUs are to say the same", p.path)
		}
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("sse.printTo: %w", err)
	}
	p.path, p.buffer = path, bufio.NewWriterSize(file, 1<<16)
	return nil
}

// text prints one line as it is.
func (p *printer) text(line string) error {
	return p.write([]byte(line))
}

func (p *printer) write(line []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.buffer == nil {
		return fmt.Errorf("sse.print: say where to by sse.printTo")
	}
	// So that whoever reads along never sees a part of a line for long.
	if p.buffer.Available() <= len(line) {
		if err := p.buffer.Flush(); err != nil {
			return err
		}
	}
	_, _ = p.buffer.Write(line)
	err := p.buffer.WriteByte('\n')
	if !p.armed {
		p.armed = true
		time.AfterFunc(printEvery, func() { _ = p.flush() })
	}
	return err
}

// flush writes what waits. A script calls it when it has printed its last line.
func (p *printer) flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	if p.buffer == nil {
		return nil
	}
	return p.buffer.Flush()
}

// made says which call of the schedule an exchange was, and when it was due.
type made struct {
	i, step, attempt int64
	intendedUs       int64
}

// printCall prints what came of the VU's last call. What may hold a secret, the body and the error, the script says itself. A call that was
// not sent has no line.
func (m *ModuleInstance) printCall(i, step, attempt int64, intendedUs float64, body, text string, aborted bool) error {
	x := m.last
	if x == nil || x.startedAt.IsZero() {
		return nil
	}
	m.last = nil
	return m.printer.write(x.printed(made{i, step, attempt, int64(intendedUs)}, body, text, aborted))
}

const printedTextMost = 300

// shortened bounds what a server may say beside its body: a number, a date, an error that quotes it.
func shortened(text string) string {
	if len(text) > printedTextMost {
		return foreignName(text)
	}
	return text
}

// printed is Printed of src/workload/handover.ts as JSON.
func (x *exchange) printed(of made, body, text string, aborted bool) []byte {
	line := make([]byte, 0, 512+8*len(x.gaps)+len(body))
	number := func(name string, value int64) {
		line = append(append(append(line, ',', '"'), name...), '"', ':')
		line = strconv.AppendInt(line, value, 10)
	}
	moment := func(name string, value any) {
		if us, ok := value.(int64); ok {
			number(name, us)
			return
		}
		line = append(append(append(line, ',', '"'), name...), `":null`...)
	}
	quoted := func(name string, value any) {
		line = append(append(append(line, ',', '"'), name...), '"', ':')
		encoded, _ := json.Marshal(value) // of texts and lists of them: cannot fail
		line = append(line, encoded...)
	}
	line = append(line, `{"type":"call"`...)
	number("i", of.i)
	number("step", of.step)
	number("attempt", of.attempt)
	number("intendedUs", of.intendedUs)
	moment("startedUs", x.moment(true, 0))
	moment("connectUs", x.onWire(x.wire.connected.Load(), int64(0)))
	moment("sentUs", x.onWire(x.wire.sent.Load(), nil))
	moment("firstUs", x.onWire(x.wire.head.Load(), nil))
	moment("firstEventUs", x.moment(x.events > 0, x.first))
	moment("lastEventUs", x.moment(x.events > 0, x.last))
	moment("doneUs", x.moment(true, x.done))
	number("status", int64(x.status))
	line = append(append(append(line, `,"ended":"`...), x.end...), '"')
	line = strconv.AppendBool(append(line, `,"opened":`...), x.opened)
	number("events", int64(x.events))
	number("late", int64(x.late))
	if x.names == nil {
		line = append(line, `,"names":[]`...)
	} else {
		quoted("names", x.names)
	}
	line = append(x.appendGaps(append(line, `,"gaps":[`...)), ']')
	quoted("error", shortened(text))
	if code := transportCode(x.err); code != "" && text != "" {
		line = append(append(append(line, `,"code":"`...), code...), '"')
	}
	if values := x.header["Retry-After"]; len(values) > 0 {
		quoted("retryAfter", shortened(strings.Join(values, ", ")))
	}
	if values := x.header["Content-Encoding"]; len(values) > 0 {
		quoted("coding", strings.Join(values, ", "))
	}
	quoted("body", body)
	line = strconv.AppendBool(append(line, `,"aborted":`...), aborted)
	return append(line, '}')
}
