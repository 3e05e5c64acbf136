// Command sseparse shows what package eventstream makes of bytes, so that a property test in another language can compare it with
// another reader. It reads JSON lines {"chunks":["<base64>",…]}, one stream each, and answers with one JSON line each:
// {"events":[{"id","ownId","name","data","comment"}],"retries":["<digits>"],"comments":["…"],"error":""}.
// "id" is the last event id (it stays), "ownId" the id line of this very event or null, "name" is "" when there was no event line.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"

	"floodgate/native/eventstream"
)

type stream struct {
	Chunks [][]byte `json:"chunks"`
}

type event struct {
	ID      string  `json:"id"`
	OwnID   *string `json:"ownId"`
	Name    string  `json:"name"`
	Data    string  `json:"data"`
	Comment string  `json:"comment"`
}

type parsed struct {
	Events   []event  `json:"events"`
	Retries  []string `json:"retries"`
	Comments []string `json:"comments"`
	Error    string   `json:"error"`
}

func parse(in stream) parsed {
	out := parsed{Events: []event{}, Retries: []string{}, Comments: []string{}}
	parser := eventstream.Parser{
		KeepData:  true,
		MaxBytes:  2 << 20,
		OnRetry:   func(digits []byte) { out.Retries = append(out.Retries, string(digits)) },
		OnComment: func(comment []byte) { out.Comments = append(out.Comments, eventstream.Text(comment)) },
	}
	for _, chunk := range in.Chunks {
		err := parser.Feed(chunk, func(e eventstream.Event) bool {
			seen := event{
				ID:      eventstream.Text(e.ID),
				Name:    eventstream.Text(e.Name),
				Data:    eventstream.Text(e.Data),
				Comment: eventstream.Text(e.Comment),
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

func run(in io.Reader, out io.Writer) error {
	reader, writer := json.NewDecoder(bufio.NewReader(in)), bufio.NewWriter(out)
	answer := json.NewEncoder(writer)
	answer.SetEscapeHTML(false)
	for {
		var next stream
		if err := reader.Decode(&next); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("expected a line of JSON {\"chunks\":[\"<base64>\"]}: %w", err)
		}
		if err := answer.Encode(parse(next)); err != nil {
			return err
		}
		// One answer for each question at once, so that a test may also talk line by line.
		if err := writer.Flush(); err != nil {
			return err
		}
	}
}

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
}
