// Package eventstream is a push parser of the text/event-stream format (HTML standard, section 9.2.6): it takes chunks as the network cuts
// them and dispatches each event at the byte that completes it. It does not depend on k6, so that another parser can be compared with it.
package eventstream

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"golang.org/x/text/encoding/unicode"
)

// ErrEventTooLarge is returned by Feed when one event, or one line, grows over Parser.MaxBytes.
var ErrEventTooLarge = errors.New("event too large")

// Event is one dispatched event. The slices are the parser's own memory and change after the callback returns; take copies with Text.
type Event struct {
	ID      []byte // the last event id of the stream: it stays until another id line comes
	OwnID   bool   // this event has an id line of its own
	Name    []byte // empty without an event line (the standard's "message")
	Data    []byte // the lines of data joined by LF; nil when Parser.KeepData is false, as is Comment
	Comment []byte // the last one since the previous event
}

// Parser holds the state between chunks. The zero value counts events without keeping their data and has no bound.
type Parser struct {
	KeepData bool // keep the data and comments of events, which costs a copy
	MaxBytes int  // bound of the data of one event, and of one line; 0 is no bound

	line    []byte // the beginning of a line whose end has not come yet
	skipLF  bool   // the last byte was a CR: a LF right after it belongs to the same line end
	isBegun bool   // the first line, which may have a byte order mark, is over
	data    []byte
	dataLen int // length of the data buffer of the standard, a LF after each line included; kept also when data is not
	name    []byte
	id      []byte
	ownID   bool
	comment []byte
}

var byteOrderMark = []byte("\xEF\xBB\xBF")

// Feed reads the next chunk and calls dispatch for each event it completes; if dispatch returns false, the rest is left unread. The end of the
// stream needs no call: an event that no blank line has ended is discarded. Retry lines are ignored, because nobody reconnects.
func (p *Parser) Feed(chunk []byte, dispatch func(Event) bool) error {
	for at := 0; at < len(chunk); {
		if p.skipLF {
			p.skipLF = false
			if chunk[at] == '\n' {
				at++
				continue
			}
		}
		length := bytes.IndexAny(chunk[at:], "\r\n")
		if length < 0 {
			p.line = append(p.line, chunk[at:]...)
			return p.bounded(len(p.line))
		}
		end := at + length
		line := chunk[at:end]
		if len(p.line) > 0 {
			p.line = append(p.line, line...)
			line = p.line
		}
		p.skipLF = chunk[end] == '\r'
		at = end + 1
		if err := p.bounded(len(line)); err != nil {
			return err
		}
		goOn := p.take(line, dispatch)
		p.line = p.line[:0]
		if !goOn {
			return nil
		}
		if err := p.bounded(p.dataLen); err != nil {
			return err
		}
	}
	return nil
}

func (p *Parser) bounded(size int) error {
	if p.MaxBytes > 0 && size > p.MaxBytes {
		return fmt.Errorf("%w: more than %d bytes", ErrEventTooLarge, p.MaxBytes)
	}
	return nil
}

// take interprets one line, given without its line end; it returns false when dispatch asked to stop.
func (p *Parser) take(line []byte, dispatch func(Event) bool) bool {
	if !p.isBegun {
		p.isBegun, line = true, bytes.TrimPrefix(line, byteOrderMark)
	}
	if len(line) == 0 {
		return p.dispatch(dispatch)
	}
	field, value, _ := bytes.Cut(line, []byte{':'})
	if len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	switch string(field) {
	case "": // a line that begins with a colon
		if p.KeepData {
			p.comment = append(p.comment[:0], value...)
		}
	case "data":
		p.dataLen += len(value) + 1
		if p.KeepData {
			p.data = append(append(p.data, value...), '\n')
		}
	case "event":
		p.name = append(p.name[:0], value...)
	case "id":
		if bytes.IndexByte(value, 0) < 0 {
			p.id, p.ownID = append(p.id[:0], value...), true
		}
	}
	return true
}

func (p *Parser) dispatch(dispatch func(Event) bool) bool {
	goOn := true
	if p.dataLen > 0 {
		event := Event{ID: p.id, OwnID: p.ownID, Name: p.name}
		if p.KeepData {
			event.Data, event.Comment = p.data[:len(p.data)-1], p.comment
		}
		goOn = dispatch(event)
		p.comment = p.comment[:0]
	}
	p.data, p.dataLen, p.name, p.ownID = p.data[:0], 0, p.name[:0], false
	return goOn
}

// Text decodes as the "UTF-8 decode" of the encoding standard: each maximal part of an ill-formed sequence becomes one U+FFFD. Go's own
// conversion gives one for each byte.
func Text(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	text, _ := unicode.UTF8.NewDecoder().Bytes(b) // replaces what is wrong, so it has no error
	return string(text)
}
