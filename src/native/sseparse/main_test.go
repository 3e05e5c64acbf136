package main

import (
	"strings"
	"testing"
)

func TestAnswersEachStreamWithOneLine(t *testing.T) {
	// "id: 1\r" + "\nevent: e\ndata: <a>\n\n" and "data: b\n\n"
	in := `{"chunks":["aWQ6IDEN","CmV2ZW50OiBlCmRhdGE6IDxhPgoK"]}` + "\n" + `{"chunks":["ZGF0YTogYgoK"]}` + "\n"
	want := `{"events":[{"id":"1","ownId":"1","name":"e","data":"<a>","comment":""}],"retries":[],"comments":[],"error":""}` + "\n" +
		`{"events":[{"id":"","ownId":null,"name":"","data":"b","comment":""}],"retries":[],"comments":[],"error":""}` + "\n"
	var out strings.Builder
	if err := run(strings.NewReader(in), &out); err != nil || out.String() != want {
		t.Errorf("expected %s\ngot %s\nerror %v", want, out.String(), err)
	}
}

func TestSaysWhatItExpectedWhenTheInputIsNoJSON(t *testing.T) {
	var out strings.Builder
	if err := run(strings.NewReader("hello\n"), &out); err == nil || !strings.Contains(err.Error(), `{"chunks":["<base64>"]}`) {
		t.Errorf("expected an error naming the shape, got %v", err)
	}
}
