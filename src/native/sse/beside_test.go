package sse

import (
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// held serves streams that end when they are let go.
func held(t *testing.T) (url string, open *atomic.Int64, letGo func()) {
	t.Helper()
	open = new(atomic.Int64)
	gate := make(chan struct{})
	url = serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write([]byte("event: token\ndata: 1\n\n"))
		w.(http.Flusher).Flush()
		open.Add(1)
		defer open.Add(-1)
		select {
		case <-gate:
			_, _ = w.Write([]byte("event: done\ndata: 2\n\n"))
		case <-r.Context().Done():
		}
	})
	return url, open, func() { close(gate) }
}

func printing(v *vu, calls int) string {
	path := filepath.Join(v.t.TempDir(), "printed")
	v.run(fmt.Sprintf(`sse.printTo(%q); sse.callsAtOnce(%d)`, path, calls))
	return path
}

func TestGarbageLiesWhileThereAreManyCalls(t *testing.T) {
	const calls = 2_000
	b := newBeside()
	if err := b.allow(calls); err != nil {
		t.Fatal(err)
	}
	runtime.GC()
	var memory runtime.MemStats
	runtime.ReadMemStats(&memory)
	if memory.NextGC < 2*calls*ballastOfCall {
		t.Errorf("expected no collection before %d bytes, the next is at %d", 2*calls*ballastOfCall, memory.NextGC)
	}
	runtime.KeepAlive(b)
}

func TestAVUGoesOnWhileItsCallIsUnderWay(t *testing.T) {
	url, open, letGo := held(t)
	v := newVU(t)
	path := printing(v, 10)
	v.run(fmt.Sprintf(`for (let i = 0; i < 5; i++) if (!sse.begin(%q, sse.kind(%s), undefined, undefined, JSON.stringify({ i }), 1000 + i)) throw new Error("no");`, url, terminal))
	if !eventually(t, func() bool { return open.Load() == 5 }) {
		t.Fatalf("expected five streams at once, there are %d", open.Load())
	}
	expect(t, "in flight", v.account()["cut"].(int), 5)
	letGo()
	v.run(`sse.finish(10000, 1000); sse.printed()`)
	seen := map[any]bool{}
	for _, line := range printedIn(t, path) {
		expect(t, "ended", line["ended"], "done")
		expect(t, "events", line["events"], 2.0)
		expect(t, "intended", line["intendedUs"].(float64)-line["i"].(float64), 1000)
		seen[line["i"]] = true
	}
	expect(t, "calls with a line", len(seen), 5)
	expect(t, "in flight afterwards", v.account()["cut"].(int), 0)
	expect(t, "most in flight", v.account()["most"].(int), 5)
	streams := 0
	for _, container := range v.containers() {
		for _, sample := range container.GetSamples() {
			if sample.Metric.Name == "sse_streams" {
				streams++
			}
		}
	}
	expect(t, "samples of streams", streams, 5)
}

func TestACallBesideLeavesAtItsMomentAndTheVUDoesNotWaitForIt(t *testing.T) {
	url, seen := answering(t, 200, "{}")
	v := newVU(t)
	path := printing(v, 5)
	due := inMs(300)
	v.run(fmt.Sprintf(`sse.begin(%q, sse.kind({}), undefined, undefined, '{"i":0}', %d)`, url, due))
	if n := seen.Load(); until(due) > 0 && n != 0 {
		t.Errorf("expected nothing before its moment, the server saw %d", n)
	}
	v.run(`sse.finish(10000, 1000); sse.printed()`)
	line := printedIn(t, path)[0]
	if startedUs := int64(line["startedUs"].(float64)); startedUs < due {
		t.Errorf("expected the call to leave no earlier than its moment, it left %d us before", due-startedUs)
	}
	expect(t, "intended", line["intendedUs"].(float64), float64(due))
}

func TestACallBesideIsNotSentWhereSendingEndsBeforeItsMoment(t *testing.T) {
	url, seen := answering(t, 200, "{}")
	root := NewRootModule()
	v := newVUOf(t, root)
	path := printing(v, 5)
	v.run(fmt.Sprintf(`sse.begin(%q, sse.kind({}), undefined, undefined, '{"i":0}', %d)`, url, inMs(60_000)))
	root.budget.end(&stop{"asked", "the runner asked to stop"})
	v.run(`sse.finish(10000, 1000); sse.print("{}"); sse.printed()`)
	expect(t, "seen", seen.Load(), 0)
	expect(t, "lines", len(printedIn(t, path)), 1)
	expect(t, "unsent", v.account()["unsent"].(int64), int64(1))
}

func TestACallThatFindsNoPlaceWaitsForOne(t *testing.T) {
	url, open, letGo := held(t)
	v := newVU(t)
	printing(v, 2)
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = v.VU.Runtime().RunString(fmt.Sprintf(`for (let i = 0; i < 3; i++) sse.begin(%q, sse.kind(%s), undefined, undefined, JSON.stringify({ i }), 0)`, url, terminal))
	}()
	eventually(t, func() bool { return open.Load() == 2 })
	select {
	case <-over:
		t.Fatal("expected the third call to wait")
	case <-time.After(50 * time.Millisecond):
	}
	letGo()
	<-over
	v.run(`sse.finish(10000, 10000)`)
}

func TestWhatTheEndOfTheTestCutsOffHasNoLine(t *testing.T) {
	url, open, _ := held(t)
	v := newVU(t)
	path := printing(v, 10)
	v.run(fmt.Sprintf(`sse.begin(%q, sse.kind(%s), undefined, undefined, '{"i":0}', 0); sse.print("{}")`, url, terminal))
	eventually(t, func() bool { return open.Load() == 1 })
	v.run(`sse.finish(20, 10000); sse.printed()`)
	expect(t, "lines", len(printedIn(t, path)), 1)
	expect(t, "in flight", v.account()["cut"].(int), 1)
}

func TestWhereSendingHasEndedCallsAreWaitedForNoLongerThanADrain(t *testing.T) {
	url, open, _ := held(t)
	root := NewRootModule()
	v := newVUOf(t, root)
	printing(v, 10)
	v.run(fmt.Sprintf(`sse.begin(%q, sse.kind(%s), undefined, undefined, '{"i":0}', 0)`, url, terminal))
	eventually(t, func() bool { return open.Load() == 1 })
	over := make(chan struct{})
	go func() {
		defer close(over)
		_, _ = v.VU.Runtime().RunString(`sse.finish(600000, 20)`)
	}()
	select {
	case <-over:
		t.Fatal("expected the call to be waited for")
	case <-time.After(50 * time.Millisecond):
	}
	root.budget.end(&stop{"asked", "the runner asked to stop"})
	select {
	case <-over:
	case <-time.After(30 * time.Second):
		t.Fatal("expected the call to be broken off after the drain")
	}
	expect(t, "in flight", v.account()["cut"].(int), 1)
}

func TestNothingIsBegunWhenNothingMayLeaveAnyMore(t *testing.T) {
	url, seen := answering(t, 200, "{}")
	v := newVU(t)
	path := printing(v, 1)
	v.run(fmt.Sprintf(`
		sse.budget({ requests: 1 });
		for (let i = 0; i < 3; i++) sse.begin(%q, sse.kind({}), undefined, undefined, JSON.stringify({ i }), 0);
		sse.finish(10000, 1000); sse.printed();`, url))
	expect(t, "seen", seen.Load(), 1)
	expect(t, "lines", len(printedIn(t, path)), 1)
}

func TestCallsOfAKindHaveHeadersAndABodyOfTheirOwn(t *testing.T) {
	var mu sync.Mutex
	seen := map[string]bool{}
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		seen[fmt.Sprintf("%s %s %s %s %s", r.Method, r.Header.Get("All"), r.Header.Get("A"), r.Header.Get("B"), body)] = true
	})
	v := newVU(t)
	_ = printing(v, 3)
	v.run(fmt.Sprintf(`
		const kind = sse.kind({ method: "POST", headers: { All: "all" } });
		sse.begin(%[1]q, kind, { A: "1" }, "one", '{"i":0}', 0);
		sse.begin(%[1]q, kind, { B: "2" }, undefined, '{"i":0}', 0);
		sse.begin(%[1]q, kind, undefined, "three", '{"i":0}', 0);
		sse.finish(10000, 1000)`, url))
	for _, call := range []string{"POST all 1  one", "POST all  2 ", "POST all   three"} {
		if !seen[call] {
			t.Errorf("expected %q, the server saw %v", call, seen)
		}
	}
}

func TestWhatIsWrongInACallBesideIsAnExceptionThatNamesIt(t *testing.T) {
	v := newVU(t)
	_ = printing(v, 1)
	for script, text := range map[string]string{
		`sse.kind({ timout: 5 })`:                                                `sse.kind: json: unknown field "timout"`,
		`sse.kind({ headers: { "a b": "x" } })`:                                  `sse.kind: the header "a b"`,
		`sse.kind({ body: {} })`:                                                 `sse.kind: body: expected a string`,
		`sse.begin("http://127.0.0.1:1/", {}, null, null, '{"i":0}', 0)`:         "what sse.kind gave",
		`sse.begin("http://127.0.0.1:1/")`:                                       "what sse.kind gave",
		`sse.begin("/relative", sse.kind({}), null, null, '{"i":0}', 0)`:         "absolute http or https address",
		`sse.begin("http://127.0.0.1:1/", sse.kind({}), { "a b": "x" }, "")`:     `the header "a b"`,
		`sse.begin("http://127.0.0.1:1/", sse.kind({}), null, {}, '{"i":0}', 0)`: "JSON.stringify",
	} {
		if message := v.throws(script); !strings.Contains(message, text) {
			t.Errorf("%s: expected %q, got %q", script, text, message)
		}
	}
}

func TestCredentialsAreMaskedInWhatIsPrintedOfACall(t *testing.T) {
	for text, want := range map[string]string{
		"no secret here":                               "no secret here",
		"key svc_sk_live_abcdefgh1234 is bad":          "key svc_sk_live_...1234 is bad",
		"svc_pk_abcdefgh5678":                          "svc_pk_...5678",
		"svc_sess_live_eyJabcde.abcd.efgh9999":         "svc_sess_live_...9999",
		"eyJabcdefg.abcd.efgh7777":                     "eyJ...7777",
		"svc_sk_live_...1234":                          "svc_sk_live_...1234",
		"svc_sk_live_...1234/svc_sk_live_abcdefgh1234": "svc_sk_live_...1234/svc_sk_live_...1234",
	} {
		expect(t, text, masked(text), want)
	}
	url, _ := answering(t, 401, `{"detail":"svc_sk_live_abcdefgh1234 is unknown"}`)
	v := newVU(t)
	path := printing(v, 1)
	v.run(fmt.Sprintf(`sse.begin(%q, sse.kind({}), undefined, undefined, '{"i":0}', 0); sse.finish(10000, 1000); sse.printed()`, url))
	body := printedIn(t, path)[0]["body"].(string)
	if strings.Contains(body, "abcdefgh") || !strings.Contains(body, "svc_sk_live_...1234") {
		t.Errorf("expected the key masked, got %s", body)
	}
}

func TestABodyIsPrintedWhereAnOutcomeIsNamedByIt(t *testing.T) {
	for _, c := range []struct {
		status     int
		body, want string
	}{
		{200, `{"ok":true}`, ""},
		{200, `{"error":"no route"}`, `{"error":"no route"}`},
		{429, `{"error":"b2b_overloaded"}`, `{"error":"b2b_overloaded"}`},
		{502, strings.Repeat("é", 1000), strings.Repeat("é", 1000)},
		{502, strings.Repeat("é", 20_000), tooLong},
		{502, "<html>" + strings.Repeat("x", 20_000), longPage},
	} {
		x := &exchange{record: record{Status: c.status, Body: c.body}}
		expect(t, fmt.Sprint(c.status, " ", len(c.body)), x.printable(false), c.want)
	}
}

func TestACallHasItsOwnConnectionAndTheNextOneUsesItAgain(t *testing.T) {
	gate := make(chan struct{})
	var arrived atomic.Int32
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived.Add(1)
		<-gate
		_, _ = w.Write([]byte("{}"))
	})
	v := newVU(t)
	path := printing(v, 5)
	begin := func(from, to int) {
		v.run(fmt.Sprintf(`for (let i = %d; i < %d; i++) sse.begin(%q, sse.kind({}), undefined, undefined, JSON.stringify({ i }), 0)`, from, to, url))
	}
	begin(0, 3)
	// Answered earlier, one of them could lend its connection to another.
	eventually(t, func() bool { return arrived.Load() == 3 })
	close(gate)
	eventually(t, func() bool { return v.account()["cut"].(int) == 0 })
	eventually(t, func() bool { v.run(`sse.printed()`); return len(printedIn(t, path)) == 3 })
	begin(3, 4)
	v.run(`sse.finish(10000, 1000); sse.printed()`)
	made := 0
	for _, line := range printedIn(t, path) {
		if line["connectUs"] != 0.0 {
			made++
		}
		if line["i"] == 3.0 {
			expect(t, "connection of the last call", line["connectUs"], 0.0)
		}
	}
	expect(t, "connections", made, 3)
}
