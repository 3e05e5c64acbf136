package sse

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// src/contract/envelopes.test.ts reads the same cases, and the bodies that are printed here for it.
func TestTheAnswersThatEveryLanguageReads(t *testing.T) {
	text, err := os.ReadFile("../../contract/answer-cases.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Says, Body, Base64, Outcome string
		Status                      int
		Fill                        []any
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		body := c.Body
		if bytes, _ := base64.StdEncoding.DecodeString(c.Base64); len(bytes) > 0 {
			body = string(bytes)
		}
		if len(c.Fill) == 2 {
			body = strings.Replace(body, "$", strings.Repeat(c.Fill[0].(string), int(c.Fill[1].(float64))), 1)
		}
		expect(t, c.Says, refusal(c.Status, body), c.Outcome)
		// The runner names the outcome by what is printed.
		x := &exchange{record: record{Status: c.Status, Body: body}}
		expect(t, c.Says+", as it is printed", refusal(c.Status, x.printable(false)), c.Outcome)
	}
}
