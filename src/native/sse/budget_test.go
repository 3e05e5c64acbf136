package sse

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// account is what was spent, by way of the script.
func (v *vu) account() map[string]any {
	v.t.Helper()
	value, err := v.VU.Runtime().RunString(`sse.spent()`)
	if err != nil {
		v.t.Fatal(err)
	}
	return flat(value.Export().(map[string]any))
}

// flat is an account with what was spent and why it stopped beside its other members.
func flat(account map[string]any) map[string]any {
	maps.Copy(account, account["spent"].(map[string]any))
	if stopped, is := account["stopped"].(map[string]any); is {
		account["stopped"], account["stopped_by"] = stopped["reason"], stopped["by"]
	}
	return account
}

func (v *vu) run(script string) {
	v.t.Helper()
	if _, err := v.VU.Runtime().RunString(script); err != nil {
		v.t.Fatal(err)
	}
}

// answering serves a status and a body, and counts the calls that came.
func answering(t *testing.T, status int, body string) (string, *atomic.Int64) {
	t.Helper()
	seen := new(atomic.Int64)
	return serve(t, func(w http.ResponseWriter, _ *http.Request) {
		seen.Add(1)
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}), seen
}

func TestNoMoreCallsLeaveThanTheBudgetAllowsWhoeverSendsThem(t *testing.T) {
	const vus, each, allowed = 5, 10, 23
	url, seen := answering(t, 200, "{}")
	root := NewRootModule()
	var together sync.WaitGroup
	var unsent atomic.Int64
	all := make([]*vu, vus)
	for i := range all {
		all[i] = newVUOf(t, root)
		all[i].run(fmt.Sprintf(`sse.budget({ requests: %d })`, allowed))
	}
	for _, v := range all {
		together.Add(1)
		go func() {
			defer together.Done()
			for range each {
				r := v.silent(url, `{}`)
				if r.Ended == "not_sent" {
					unsent.Add(1)
					if !strings.Contains(r.Error, "budget.requests of the target file (23) is spent") || r.Status != 0 || r.SentUs != nil {
						t.Errorf("expected an answer that names the budget and nothing sent, got %+v", r)
					}
				}
			}
		}()
	}
	together.Wait()
	expect(t, "seen by the server", seen.Load(), allowed)
	expect(t, "not sent", unsent.Load(), vus*each-allowed)
	account := all[0].account()
	expect(t, "requests", account["requests"].(int64), allowed)
	expect(t, "unsent", account["unsent"].(int64), vus*each-allowed)
	expect(t, "stopped", account["stopped"].(string), "budget.requests of the target file (23) is spent")
}

func TestWhatNeverReachedTheTargetIsNotSpent(t *testing.T) {
	v := newVU(t)
	v.run(`sse.budget({ requests: 2, map_loads: 1 })`)
	for range 3 {
		expect(t, "ended", v.silent("http://127.0.0.1:1/", `{ charges: "map_loads" }`).Ended, "reset")
	}
	expect(t, "requests", v.account()["requests"].(int64), 0)
	expect(t, "map loads", v.account()["map_loads"].(int64), 0)
	url := serveRaw(t, func(*net.TCPConn) {}) // takes the request and hangs up
	expect(t, "ended", v.silent(url, `{ method: "POST", body: "x", charges: "map_loads" }`).Ended, "reset")
	expect(t, "requests", v.account()["requests"].(int64), 1)
	expect(t, "map loads", v.account()["map_loads"].(int64), 1)
}

func TestAChargeIsGivenBackForARefusalOnly(t *testing.T) {
	for _, c := range []struct {
		status int
		body   string
		spent  int64
	}{{200, "{}", 1}, {201, "{}", 1}, {429, `{"error":"map_load_quota_exceeded"}`, 0}, {403, `{}`, 0}, {503, "{}", 0}, {502, "<html>", 0}} {
		v := newVU(t)
		url, _ := answering(t, c.status, c.body)
		v.silent(url, `{ charges: "analyses" }`)
		expect(t, fmt.Sprint(c.status), v.account()["analyses"].(int64), c.spent)
	}
	cut := serveRaw(t, func(conn *net.TCPConn) { write(conn, "HTTP/1.1 429 No\r\nContent-Length: 50\r\n\r\n{") })
	v := newVU(t)
	v.silent(cut, `{ charges: "map_loads" }`)
	expect(t, "half a refusal", v.account()["map_loads"].(int64), 1)
}

func TestASpentChargeStopsOnlyAtACallThatNeedsIt(t *testing.T) {
	v := newVU(t)
	v.run(`sse.budget({ map_loads: 1 })`)
	url, seen := answering(t, 200, "{}")
	v.silent(url, `{ charges: "map_loads" }`)
	expect(t, "another call", v.silent(url, `{}`).Ended, "refused")
	expect(t, "one more load", v.silent(url, `{ charges: "map_loads" }`).Ended, "not_sent")
	expect(t, "afterwards nothing leaves", v.silent(url, `{}`).Ended, "not_sent")
	expect(t, "seen", seen.Load(), 2)
}

func TestWhatCallsInFlightReserveIsWaitedFor(t *testing.T) {
	const vus, each, allowed = 6, 10, 7
	var loads, charged atomic.Int64
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		n := loads.Add(1)
		time.Sleep(20 * time.Millisecond)
		if n%3 != 0 {
			w.WriteHeader(429)
			_, _ = w.Write([]byte(`{"error":"org_overloaded"}`))
			return
		}
		charged.Add(1)
		_, _ = w.Write([]byte("{}"))
	})
	root := NewRootModule()
	var together sync.WaitGroup
	all := make([]*vu, vus)
	for i := range all {
		all[i] = newVUOf(t, root)
		all[i].run(fmt.Sprintf(`sse.budget({ map_loads: %d })`, allowed))
	}
	for _, v := range all {
		together.Add(1)
		go func() {
			defer together.Done()
			for range each {
				v.silent(url, `{ charges: "map_loads" }`)
			}
		}()
	}
	together.Wait()
	expect(t, "charged", charged.Load(), allowed)
	expect(t, "map loads", all[0].account()["map_loads"].(int64), allowed)
	expect(t, "stopped", all[0].account()["stopped"].(string), "budget.map_loads of the target file (7) is spent")
}

func TestAReservationHoldsBackNoOtherCall(t *testing.T) {
	root := NewRootModule()
	hold := make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, _ *http.Request) { <-hold })
	url, _ := answering(t, 200, "{}")
	first, second, third := newVUOf(t, root), newVUOf(t, root), newVUOf(t, root)
	first.run(`sse.budget({ map_loads: 1 })`)
	var together sync.WaitGroup
	together.Add(2)
	go func() {
		defer together.Done()
		first.silent(slow, `{ charges: "map_loads" }`)
	}()
	for flat(root.budget.account())["cut"].(int) == 0 {
		time.Sleep(time.Millisecond)
	}
	ended := make(chan string, 1)
	go func() {
		defer together.Done()
		ended <- second.silent(url, `{ charges: "map_loads" }`).Ended
	}()
	expect(t, "a call without a charge", third.silent(url, `{}`).Ended, "refused")
	close(hold)
	together.Wait()
	expect(t, "the one that waited", <-ended, "not_sent")
}

func TestACallThatWaitsWhenTheTestEndsWasNotSent(t *testing.T) {
	root := NewRootModule()
	hold := make(chan struct{})
	defer close(hold)
	slow := serve(t, func(w http.ResponseWriter, _ *http.Request) { <-hold })
	first, second := newVUOf(t, root), newVUOf(t, root)
	first.run(`sse.budget({ map_loads: 1 })`)
	go first.silent(slow, `{ charges: "map_loads" }`)
	for flat(root.budget.account())["cut"].(int) == 0 {
		time.Sleep(time.Millisecond)
	}
	go func() {
		time.Sleep(20 * time.Millisecond)
		second.CancelContext()
	}()
	r := second.silent(slow, `{ charges: "map_loads" }`)
	expect(t, "ended", r.Ended, "not_sent")
	expect(t, "status", r.Status, 0)
	expect(t, "requests", flat(root.budget.account())["requests"].(int64), 1)
}

func TestOneVUSeesToWhatAllShare(t *testing.T) {
	root := NewRootModule()
	one, other := newVUOf(t, root), newVUOf(t, root)
	read := func(v *vu, script string) any {
		value, err := v.VU.Runtime().RunString(script)
		if err != nil {
			t.Fatal(err)
		}
		return value.Export()
	}
	expect(t, "nothing yet", read(one, `sse.recall("a")`), nil)
	expect(t, "the first", read(one, `sse.claim("a", 10000)`), any(true))
	expect(t, "the second", read(other, `sse.claim("a", 10000)`), any(false))
	expect(t, "another name", read(other, `sse.claim("b", 1)`), any(true))
	time.Sleep(2 * time.Millisecond)
	expect(t, "a claim that ran out", read(one, `sse.claim("b", 1)`), any(true))
	read(one, `sse.remember("a", "text")`)
	expect(t, "remembered", read(other, `sse.recall("a")`), any("text"))
	expect(t, "claimed anew", read(other, `sse.claim("a", 10000)`), any(true))
}

func TestStreamSecondsEndStreamsAndNothingElse(t *testing.T) {
	v := newVU(t)
	v.run(`sse.budget({ stream_seconds: 0.03 })`)
	url := serve(t, func(w http.ResponseWriter, r *http.Request) {
		stream("data: a\n\n")(w, r)
		time.Sleep(50 * time.Millisecond)
	})
	expect(t, "first", v.silent(url, `{}`).Ended, "eof")
	if seconds := v.account()["stream_seconds"].(float64); seconds < 0.05 {
		t.Errorf("expected at least 0.05 stream seconds, got %v", seconds)
	}
	plain, _ := answering(t, 200, "{}")
	expect(t, "no stream", v.silent(plain, `{ headers: { Accept: "application/json" } }`).Ended, "refused")
	r := v.silent(url, `{}`)
	expect(t, "second", r.Ended, "not_sent")
	if !strings.Contains(r.Error, "stream_seconds") {
		t.Errorf("expected an error that names stream_seconds, got %q", r.Error)
	}
}

func TestOpenStreamsCountWhileTheyAreOpen(t *testing.T) {
	at := time.Unix(1000, 0)
	b := newBudget()
	b.streamBegan(at)
	b.streamBegan(at.Add(2 * time.Second))
	expect(t, "two open", b.streamSeconds(at.Add(3*time.Second)), 4)
	b.streamEnded(at.Add(3 * time.Second))
	expect(t, "one open", b.streamSeconds(at.Add(5*time.Second)), 6)
	b.streamEnded(at.Add(5 * time.Second))
	expect(t, "none open", b.streamSeconds(at.Add(time.Hour)), 6)
}

func TestNoWindowOfASecondHoldsMoreThanTheRate(t *testing.T) {
	for _, perS := range []float64{0.5, 3, 50, 170, 2000} {
		p, now := newPace(perS), time.Unix(1000, 0)
		var sent []time.Time
		for end := now.Add(10 * time.Second); now.Before(end); {
			wait := takeTurn(p, now)
			if wait == 0 {
				sent = append(sent, now)
			}
			now = now.Add(wait)
			if len(sent) == int(3*perS) { // the process stands still for a while
				now = now.Add(700 * time.Millisecond)
			}
		}
		allowed := int(max(perS*1.05, perS+1))
		for from, to := 0, 0; to < len(sent); to++ {
			for sent[to].Sub(sent[from]) >= time.Second {
				from++
			}
			if to-from+1 > allowed {
				t.Fatalf("%v per second: %d calls in one second", perS, to-from+1)
			}
		}
		if least := int(perS * 8.8); len(sent) < least {
			t.Errorf("%v per second: expected at least %d calls in 10 s, got %d", perS, least, len(sent))
		}
	}
}

func TestTheRateHoldsForAllVUsTogether(t *testing.T) {
	root := NewRootModule()
	url, seen := answering(t, 200, "{}")
	var together sync.WaitGroup
	started := time.Now()
	for range 4 {
		v := newVUOf(t, root)
		v.run(`sse.budget({ maxPerS: 50 })`)
		together.Add(1)
		go func() {
			defer together.Done()
			for range 10 {
				v.silent(url, `{}`)
			}
		}()
	}
	together.Wait()
	if took := time.Since(started); took < 740*time.Millisecond {
		t.Errorf("expected 40 calls at 50 per second to take 0.74 s and more, they took %v", took)
	}
	expect(t, "seen", seen.Load(), 40)
}

func TestErrorsEndTheRunUnlessTheyAreTolerated(t *testing.T) {
	for _, c := range []struct {
		name, more, body string
		status           int
		stops            bool
	}{
		{"a gateway's", ``, "<html>", 502, true},
		{"the key service's", ``, "{}", 503, true},
		{"tolerated", `, tolerated: ["503"]`, "{}", 503, false},
		{"a gateway's, where another is tolerated", `, tolerated: ["503"]`, "<html>", 503, true},
		{"a gateway's refusal", ``, "<html>", 403, true},
		{"a gateway's problem document", ``, `{"title":"Too Many Requests","status":429,"detail":"Slow down."}`, 429, true},
		{"a refusal without a subcode", ``, "", 401, false},
		{"a body that is wrong", ``, `{"detail":[]}`, 422, false},
		{"a shed", ``, `{"error":"b2b_overloaded"}`, 429, false},
	} {
		v := newVU(t)
		v.run(`sse.budget({ stopErrorRate: 0.2` + c.more + ` })`)
		url, seen := answering(t, c.status, c.body)
		for range 30 {
			v.silent(url, `{}`)
		}
		expect(t, c.name, v.account()["stopped"] != nil, c.stops)
		if c.stops {
			expect(t, c.name+": calls before the end", seen.Load(), 10)
		}
	}
	v := newVU(t)
	v.run(`sse.budget({ stopErrorRate: 0.2 })`)
	for range 12 {
		v.silent("http://127.0.0.1:1/", `{}`)
	}
	expect(t, "no answer", v.account()["stopped"].(string), "stop_when.error_rate of the target file (0.2) is exceeded: 10 of the newest 10 calls were errors")
}

func TestAStreamWithoutAnEventIsAnError(t *testing.T) {
	typed := func(contentType, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{contentType}
			_, _ = w.Write([]byte(body))
		}
	}
	cut := func(w http.ResponseWriter, r *http.Request) {
		stream(": ping\n\n")(w, r)
		panic(http.ErrAbortHandler)
	}
	for _, c := range []struct {
		name   string
		server http.HandlerFunc
		params string
		stops  bool
	}{
		{"nothing", stream(), `{}`, true},
		{"comments alone", stream(": ping\n\n", ": ping\n\n"), `{}`, true},
		{"fields without data", stream("id: 1\nretry: 10\n\n"), `{}`, true},
		{"half an event", stream("data: a\n"), `{}`, true},
		{"a byte order mark", stream("\xEF\xBB\xBF"), `{}`, true},
		{"JSON", typed("application/json", `{"ok":true}`), `{}`, true},
		{"nothing, of no type", typed("", ""), `{}`, true},
		{"cut before the first event", cut, `{}`, true},
		{"an error in JSON", typed("application/json", `{"error":{}}`), `{}`, false},
		{"one event", stream("data: a\n\n"), `{}`, false},
		{"an empty event", stream("data:\n\n"), `{}`, false},
		{"no stream that was asked for", typed("application/json", `{}`), `{ headers: { Accept: "application/json" } }`, false},
	} {
		v := newVU(t)
		v.run(`sse.budget({ stopErrorRate: 0.2 })`)
		url := serve(t, c.server)
		for range 12 {
			v.silent(url, c.params)
		}
		expect(t, c.name, v.account()["stopped"] != nil, c.stops)
	}
}

func TestOnlyRecentCallsAreJudged(t *testing.T) {
	at := time.Unix(1000, 0)
	var r recentCalls
	for range 100 {
		r.add(at, false)
	}
	for range 20 {
		r.add(at.Add(500*time.Millisecond), true)
	}
	expect(t, "20 of 120", r.tooMany(0.2), "")
	r.add(at.Add(1200*time.Millisecond), false)
	expect(t, "20 of 21", r.tooMany(0.2) != "", true)
}

func TestTermsAreCheckedAndTheSameForAll(t *testing.T) {
	v := newVU(t)
	for script, text := range map[string]string{
		`sse.budget()`:                                          "expected an object",
		`sse.budget({ request: 5 })`:                            `unknown field "request"`,
		`sse.budget({ requests: "many" })`:                      "bounds.requests of type float64",
		`sse.budget({ requests: -1 })`:                          "requests: expected a number that is not negative",
		`sse.budget({ requests: NaN })`:                         "NaN",
		`sse.budget({ maxPerS: 0 })`:                            "maxPerS: expected a number above 0",
		`sse.budget({ tolerated: "503" })`:                      "bounds.tolerated of type []string",
		`sse.open("http://127.0.0.1:1/", { charges: "money" })`: "charges: expected",
	} {
		if message := v.throws(script); !strings.Contains(message, text) {
			t.Errorf("%s: expected %q, got %q", script, text, message)
		}
	}
	v.run(`sse.budget({ requests: 5, tolerated: ["503"] }); sse.budget({ requests: 5, tolerated: ["503"], maxPerS: undefined })`)
	if message := v.throws(`sse.budget({ requests: 6 })`); !strings.Contains(message, "another budget already") {
		t.Errorf("expected other terms to be an error, got %q", message)
	}
}

func TestDrainWaitsUntilTheScriptHasTakenNote(t *testing.T) {
	root := NewRootModule()
	hold := make(chan struct{})
	arrived := make(chan struct{}, 1)
	url := serve(t, func(_ http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-hold
	})
	calling, first, second := newVUOf(t, root), newVUOf(t, root), newVUOf(t, root)
	returned := make(chan struct{})
	go func() {
		calling.silent(url, `{}`)
		close(returned)
	}()
	<-arrived
	over := make(chan bool)
	go func() { over <- first.drained(10_000) }()
	// Whoever comes second does not wait.
	for drains := false; !drains; time.Sleep(time.Millisecond) {
		root.budget.mu.Lock()
		drains = root.budget.draining
		root.budget.mu.Unlock()
	}
	expect(t, "the second one", second.drained(10_000), false)
	close(hold)
	<-returned
	select {
	case <-over:
		t.Error("expected drain to wait until the call is settled")
	case <-time.After(50 * time.Millisecond):
	}
	calling.run(`sse.settled()`)
	expect(t, "the first one", <-over, true)
}

func (v *vu) drained(limitMs int) bool {
	v.t.Helper()
	value, err := v.VU.Runtime().RunString(fmt.Sprintf(`sse.drain(%d)`, limitMs))
	if err != nil {
		v.t.Error(err)
		return false
	}
	return value.ToBoolean()
}
