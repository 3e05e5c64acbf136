package eventstream

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// parse reads a stream cut into the given chunks and shows each event as id|name|data.
func parse(t *testing.T, parser *Parser, chunks ...string) []string {
	t.Helper()
	seen := []string{}
	for _, chunk := range chunks {
		err := parser.Feed([]byte(chunk), func(e Event) bool {
			seen = append(seen, fmt.Sprintf("%s|%s|%s", Text(e.ID), Text(e.Name), Text(e.Data)))
			return true
		})
		if err != nil {
			t.Fatalf("Feed(%q): %v", chunk, err)
		}
	}
	return seen
}

var grammar = []struct {
	name, stream string
	want         []string
}{
	{"one line of data", "data: a\n\n", []string{"||a"}},
	{"CRLF ends lines", "event: e\r\ndata: a\r\n\r\n", []string{"|e|a"}},
	{"a lone CR ends lines", "event: e\rdata: a\r\r", []string{"|e|a"}},
	{"line ends may be mixed", "data: a\rdata: b\ndata: c\r\n\r\ndata: d\n\r", []string{"||a\nb\nc", "||d"}},
	{"CR then LF is one line end, LF then CR is two", "data: a\n\rdata: b\r\n\r\n", []string{"||a", "||b"}},
	{"several lines of data are joined by LF", "data: a\ndata:\ndata: c\n\n", []string{"||a\n\nc"}},
	{"one space after the colon is stripped, not two", "data:  a\ndata:b\ndata: \n\n", []string{"|| a\nb\n"}},
	{"a tab is not stripped", "data:\ta\n\n", []string{"||\ta"}},
	{"only the first colon parts field and value", "data: a: b\n\n", []string{"||a: b"}},
	{"a field without a colon has an empty value", "data\n\n", []string{"||"}},
	{"an event with two empty lines of data is one LF", "data\ndata\n\n", []string{"||\n"}},
	{"no data, no event", "event: e\nid: 1\n\n", []string{}},
	{"the name is forgotten with the event that was none", "event: e\n\ndata: a\n\n", []string{"||a"}},
	{"the name is forgotten after an event", "event: e\ndata: a\n\ndata: b\n\n", []string{"|e|a", "||b"}},
	{"the last event line counts", "event: e\nevent: f\ndata: a\n\n", []string{"|f|a"}},
	{"an empty event line takes the name back", "event: e\nevent\ndata: a\n\n", []string{"||a"}},
	{"the id stays", "id: 1\ndata: a\n\ndata: b\n\n", []string{"1||a", "1||b"}},
	{"an id of a block without data stays too", "id: 1\n\ndata: a\n\n", []string{"1||a"}},
	{"an empty id takes it back", "id: 1\ndata: a\n\nid\ndata: b\n\n", []string{"1||a", "||b"}},
	{"an id with NUL is ignored", "id: 1\nid: 2\x003\ndata: a\n\n", []string{"1||a"}},
	{"comments are no events", ": ping\n\n:\n\ndata: a\n: in between\ndata: b\n\n", []string{"||a\nb"}},
	{"unknown fields are ignored", "dat: x\n data: x\nData: x\ndata: a\n\n", []string{"||a"}},
	{"blank lines alone are nothing", "\n\n\r\r\r\n\r\n", []string{}},
	{"an event that no blank line ends is discarded", "data: a\n\ndata: b\n", []string{"||a"}},
	{"a byte order mark at the start is skipped", "\xEF\xBB\xBFdata: a\n\n", []string{"||a"}},
	{"only one is", "\xEF\xBB\xBF\xEF\xBB\xBFdata: a\n\ndata: b\n\n", []string{"||b"}},
	{"a part of one is content", "\xEF\xBBdata: a\n\ndata: b\n\n", []string{"||b"}},
	{"one in the middle is content", "data: \xEF\xBB\xBFa\n\n", []string{"||\uFEFFa"}},
	{"text beyond ASCII", "data: Grüße 🗺\n\n", []string{"||Grüße 🗺"}},
	{"the end of a line is no end of an ill-formed sequence", "data: \xE2\x82\ndata: \xAC\n\n", []string{"||\uFFFD\n\uFFFD"}},
}

func TestGrammar(t *testing.T) {
	for _, c := range grammar {
		t.Run(c.name, func(t *testing.T) {
			if got := parse(t, &Parser{KeepData: true}, c.stream); !reflect.DeepEqual(got, c.want) {
				t.Errorf("%q\nexpected %q\ngot      %q", c.stream, c.want, got)
			}
		})
	}
}

func TestTheSameWhereverTheStreamIsCut(t *testing.T) {
	for _, c := range grammar {
		for first := 0; first <= len(c.stream); first++ {
			for second := first; second <= len(c.stream); second++ {
				got := parse(t, &Parser{KeepData: true}, c.stream[:first], c.stream[first:second], c.stream[second:])
				if !reflect.DeepEqual(got, c.want) {
					t.Fatalf("%s: %q cut at %d and %d\nexpected %q\ngot      %q", c.name, c.stream, first, second, c.want, got)
				}
			}
		}
		byByte := strings.Split(c.stream, "")
		if got := parse(t, &Parser{KeepData: true}, byByte...); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %q by byte\nexpected %q\ngot      %q", c.name, c.stream, c.want, got)
		}
	}
}

func TestCountsTheSameWithoutKeepingData(t *testing.T) {
	for _, c := range grammar {
		if got := parse(t, &Parser{}, c.stream); len(got) != len(c.want) {
			t.Errorf("%s: %q\nexpected %d events\ngot      %q", c.name, c.stream, len(c.want), got)
		}
	}
}

func TestABlankLineIsSeenAtItsFirstByte(t *testing.T) {
	got := parse(t, &Parser{KeepData: true}, "data: a\r\n\r")
	if !reflect.DeepEqual(got, []string{"||a"}) {
		t.Errorf("an event is not to wait for the LF of its last CRLF; got %q", got)
	}
}

func TestStopsReadingWhenAskedTo(t *testing.T) {
	seen := 0
	parser := Parser{}
	if err := parser.Feed([]byte("data: a\n\ndata: b\n\n"), func(Event) bool { seen++; return false }); err != nil || seen != 1 {
		t.Errorf("expected 1 event and no error, got %d and %v", seen, err)
	}
}

func TestAnEventCarriesTheLastCommentBeforeIt(t *testing.T) {
	var comments []string
	parser := Parser{KeepData: true}
	stream := "retry: 10\nretry: 1x\n: ping\n:pong\ndata: a\n\ndata: b\n\n"
	if err := parser.Feed([]byte(stream), func(e Event) bool { comments = append(comments, string(e.Comment)); return true }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"pong", ""}; !reflect.DeepEqual(comments, want) {
		t.Errorf("comments: expected %q, got %q", want, comments)
	}
}

func TestBoundsEventsAndLines(t *testing.T) {
	for name, stream := range map[string]string{
		"many lines of data":       strings.Repeat("data: 0123456789\n", 20),
		"one line":                 "data: " + strings.Repeat("x", 200) + "\n\n",
		"a line that does not end": strings.Repeat("x", 200),
		"a comment":                ": " + strings.Repeat("x", 200) + "\n",
	} {
		for _, keep := range []bool{true, false} {
			for _, size := range []int{1, 7, len(stream)} {
				parser := Parser{KeepData: keep, MaxBytes: 100}
				var err error
				for rest := stream; err == nil && len(rest) > 0; {
					n := min(size, len(rest))
					err = parser.Feed([]byte(rest[:n]), func(Event) bool { return true })
					rest = rest[n:]
				}
				if !errors.Is(err, ErrEventTooLarge) {
					t.Errorf("%s in chunks of %d, data kept %v: expected ErrEventTooLarge, got %v", name, size, keep, err)
				}
			}
		}
	}
}

func TestKeepAlivesForAnHourFillNothing(t *testing.T) {
	parser := Parser{KeepData: true, MaxBytes: 100}
	for range 10_000 {
		if err := parser.Feed([]byte(": ping\n"), func(Event) bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTextReplacesIllFormedPartsAsTheEncodingStandard(t *testing.T) {
	// Expected values are those of the "UTF-8 decode" algorithm, one U+FFFD per maximal part.
	for bytes, want := range map[string]string{
		"plain":                "plain",
		"\x80":                 "\uFFFD",
		"\xC0\xAF":             "\uFFFD\uFFFD",
		"\xE0\x80\xAF":         "\uFFFD\uFFFD\uFFFD",
		"\xE2\x82":             "\uFFFD",
		"\xE2\x82a":            "\uFFFDa",
		"\xED\xA0\x80":         "\uFFFD\uFFFD\uFFFD",
		"\xF0\x9F\x97":         "\uFFFD",
		"\xF0\x9F\x97\xBA":     "🗺",
		"\xF0\x8F\x97":         "\uFFFD\uFFFD\uFFFD",
		"\xF4\x90\x80\x80":     "\uFFFD\uFFFD\uFFFD\uFFFD",
		"\xF5a":                "\uFFFDa",
		"\xF0\x9F\xE2\x82\xAC": "\uFFFD€",
	} {
		if got := Text([]byte(bytes)); got != want {
			t.Errorf("% x: expected %q, got %q", bytes, want, got)
		}
	}
}

func TestWithoutDataAnEventCostsNoMemory(t *testing.T) {
	parser := Parser{MaxBytes: 8 << 20}
	chunk := bytes.Repeat([]byte("event: token\ndata: {\"text\":\"hello\"}\n\n"), 100)
	count := 0
	dispatch := func(Event) bool { count++; return true }
	if err := parser.Feed(chunk, dispatch); err != nil {
		t.Fatal(err)
	}
	if allocations := testing.AllocsPerRun(10, func() { _ = parser.Feed(chunk, dispatch) }); allocations != 0 {
		t.Errorf("expected no allocation for 100 events, got %v", allocations)
	}
	if count == 0 {
		t.Error("no event was counted")
	}
}
