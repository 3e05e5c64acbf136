package eventstream

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
)

// TestMain makes the compiled test a reader that properties/rigs/go-reader.ts compares with another. It reads JSON lines
// {"chunks":["<base64>",…]}, one stream each, and answers with one JSON line each:
// {"events":[{"id","ownId","name","data","comment"}],"error":""}.
// "id" is the last event id (it stays), "ownId" the id line of this very event or null, "name" is "" when there was no event line.
func TestMain(m *testing.M) {
	if os.Getenv("FLOODGATE_SSE_READER") == "" {
		os.Exit(m.Run())
	}
	if err := answer(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	os.Exit(0)
}

type stream struct {
	Chunks [][]byte `json:"chunks"`
}

type parsedEvent struct {
	ID      string  `json:"id"`
	OwnID   *string `json:"ownId"`
	Name    string  `json:"name"`
	Data    string  `json:"data"`
	Comment string  `json:"comment"`
}

type parsed struct {
	Events []parsedEvent `json:"events"`
	Error  string        `json:"error"`
}

func readAll(in stream) parsed {
	out := parsed{Events: []parsedEvent{}}
	parser := Parser{KeepData: true, MaxBytes: 2 << 20}
	for _, chunk := range in.Chunks {
		err := parser.Feed(chunk, func(e Event) bool {
			seen := parsedEvent{
				ID:      Text(e.ID),
				Name:    Text(e.Name),
				Data:    Text(e.Data),
				Comment: Text(e.Comment),
			}
			if e.OwnID {
				seen.OwnID = &seen.ID
			}
			out.Events = append(out.Events, seen)
			return true
		})
		if err != nil {
			out.Error = err.Error()
			break
		}
	}
	return out
}

func answer(in io.Reader, out io.Writer) error {
	reader, writer := json.NewDecoder(bufio.NewReader(in)), bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	for {
		var next stream
		if err := reader.Decode(&next); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("expected a line of JSON {\"chunks\":[\"<base64>\"]}: %w", err)
		}
		if err := encoder.Encode(readAll(next)); err != nil {
			return err
		}
		// One answer for each question at once, so that a test may also talk line by line.
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

func TestAnswersEachStreamWithOneLine(t *testing.T) {
	// "id: 1\r" + "\nevent: e\ndata: <a>\n\n" and "data: b\n\n"
	in := `{"chunks":["aWQ6IDEN","CmV2ZW50OiBlCmRhdGE6IDxhPgoK"]}` + "\n" + `{"chunks":["ZGF0YTogYgoK"]}` + "\n"
	want := `{"events":[{"id":"1","ownId":"1","name":"e","data":"<a>","comment":""}],"error":""}` + "\n" +
		`{"events":[{"id":"","ownId":null,"name":"","data":"b","comment":""}],"error":""}` + "\n"
	var out strings.Builder
	if err := answer(strings.NewReader(in), &out); err != nil || out.String() != want {
		t.Errorf("expected %s\ngot %s\nerror %v", want, out.String(), err)
	}
}

func TestSaysWhatItExpectedWhenTheInputIsNoJSON(t *testing.T) {
	var out strings.Builder
	if err := answer(strings.NewReader("hello\n"), &out); err == nil || !strings.Contains(err.Error(), `{"chunks":["<base64>"]}`) {
		t.Errorf("expected an error naming the shape, got %v", err)
	}
}
