package sse

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func printedIn(t *testing.T, path string) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var lines []map[string]any
	for line := range strings.Lines(string(text)) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		lines = append(lines, fields)
	}
	return lines
}

func TestACallIsPrintedAsTheScriptSawIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "printed")
	url := serve(t, stream("event: token\ndata: 1\n\n", "event: token\ndata: 2\n\n", "event: done\ndata: 3\n\n"))
	v := newVU(t)
	v.run(fmt.Sprintf(`
		sse.printTo(%q);
		const seen = sse.open(%q, %s);
		sse.printCall('{"type":"call","i":41}', 1700000000000001, false);
		sse.printCall('{"type":"call","i":42}', 5, false);
		sse.print(JSON.stringify({ type: "whole", ...seen }));
		sse.printed();`, path, url, terminal))
	lines := printedIn(t, path)
	expect(t, "lines: one for the call, none for a second time", len(lines), 2)
	call, whole := lines[0], lines[1]
	for name, want := range map[string]any{
		"type": "call", "i": 41.0, "intendedUs": 1700000000000001.0, "body": "", "error": "",
		"aborted": false, "status": 200.0, "ended": "done", "opened": true, "events": 3.0, "late": 0.0,
	} {
		expect(t, name, call[name], want)
	}
	for name, snake := range map[string]string{
		"startedUs": "started_us", "connectUs": "connect_us", "sentUs": "sent_us", "firstUs": "first_us", "firstEventUs": "first_event_us",
		"lastEventUs": "last_event_us", "doneUs": "done_us",
	} {
		expect(t, name, call[name], whole[snake])
	}
	expect(t, "names", fmt.Sprint(call["names"]), "[token done]")
	expect(t, "gaps", fmt.Sprint(call["gaps"]), fmt.Sprint(whole["gaps"]))
}

func TestWhatDidNotHappenIsPrintedAsNull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "printed")
	v := newVU(t)
	v.run(fmt.Sprintf(`sse.printTo(%q); sse.open("http://127.0.0.1:1/"); sse.printCall('{"type":"call"}', 5, false); sse.printed();`, path))
	call := printedIn(t, path)[0]
	for _, name := range []string{"sentUs", "firstUs", "firstEventUs", "lastEventUs"} {
		if value, there := call[name]; !there || value != nil {
			t.Errorf("expected %s to be null, got %v", name, value)
		}
	}
	expect(t, "connectUs", call["connectUs"], 0.0)
	expect(t, "error", call["error"], any("dial tcp 127.0.0.1:1: connect: connection refused"))
	if call["startedUs"] == nil || call["doneUs"] == nil {
		t.Errorf("expected a start and an end, got %v", call)
	}
}

func TestOfASessionNothingIsPrintedButWhatAJudgeReads(t *testing.T) {
	answers := map[string]string{
		`{"session_token":"svc_sess_live_abcdefgh","expires_in":900,"product":"tile"}`:      `{"expires_in":900,"product":"tile"}`,
		`{"session_token":"abcdefgh","expires_in":"abcdefghabcdefgh12","product":["tile"]}`: `{"expires_in":"abcdefghabcdefgh12","product":["tile"]}`,
		`{"session_token":"abcdefgh"}`: `{}`,
		`["abcdefgh"]`:                 ``,
	}
	for answer, want := range answers {
		url, _ := answering(t, 200, answer)
		path := filepath.Join(t.TempDir(), "printed")
		newVU(t).run(fmt.Sprintf(`
			sse.printTo(%q);
			sse.open(%q); sse.printCall('{"type":"mint","id":"id-1"}', 0, true);
			sse.open(%q); sse.printCall('{"type":"call"}', 5, true);
			sse.printed();`, path, url, url))
		lines := printedIn(t, path)
		for at, kind := range []string{"mint", "call"} {
			expect(t, "type", lines[at]["type"], any(kind))
			expect(t, answer, lines[at]["body"], any(want))
		}
		expect(t, "id", lines[0]["id"], any("id-1"))
		if _, has := lines[0]["intendedUs"]; has {
			t.Errorf("expected no time at which it was due, got %v", lines[0])
		}
	}
}

func TestACallThatWasNotSentIsNotPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "printed")
	v := newVU(t)
	v.run(fmt.Sprintf(`
		sse.printTo(%q); sse.budget({ requests: 0 }); sse.open("http://127.0.0.1:1/");
		sse.printCall('{"type":"call"}', 5, false); sse.printCall('{"type":"mint"}', 0, true); sse.print('{"type":"last"}'); sse.printed();`, path))
	lines := printedIn(t, path)
	expect(t, "lines", len(lines), 1)
	expect(t, "type", lines[0]["type"], "last")
}

func TestLinesAreWrittenByThemselvesSoon(t *testing.T) {
	path := filepath.Join(t.TempDir(), "printed")
	newVU(t).run(fmt.Sprintf(`sse.printTo(%q); sse.print("{}")`, path))
	written := func() bool {
		text, err := os.ReadFile(path)
		return err == nil && string(text) == "{}\n"
	}
	if !eventually(t, written) {
		t.Error("expected the line in the file")
	}
}

func TestAllVUsPrintToTheSameFile(t *testing.T) {
	root, folder := NewRootModule(), t.TempDir()
	one, other := newVUOf(t, root), newVUOf(t, root)
	path := filepath.Join(folder, "printed")
	one.run(fmt.Sprintf(`sse.printTo(%q)`, path))
	other.run(fmt.Sprintf(`sse.printTo(%q)`, path))
	if said := other.throws(fmt.Sprintf(`sse.printTo(%q)`, filepath.Join(folder, "another"))); !strings.Contains(said, "the same") {
		t.Errorf("expected to be told that there is one file, got %s", said)
	}
	if said := newVU(t).throws(`sse.print("x")`); !strings.Contains(said, "printTo") {
		t.Errorf("expected to be told of printTo, got %s", said)
	}
}

func TestGapsAreNoSamplesWhereNobodyWantsThem(t *testing.T) {
	url := serve(t, stream("data: 1\n\n", "data: 2\n\n", "data: 3\n\n"))
	for params, wanted := range map[string]int{`{}`: 2, `{ gapSamples: true }`: 2, `{ gapSamples: false }`: 0} {
		v := newVU(t)
		r := v.silent(url, params)
		expect(t, "gaps in the response", len(r.Gaps), 2)
		samples := 0
		for _, container := range v.containers() {
			for _, sample := range container.GetSamples() {
				if sample.Metric.Name == "sse_event_gap" {
					samples++
				}
			}
		}
		expect(t, "samples with "+params, samples, wanted)
	}
}
