package sse

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"go.k6.io/k6/v2/js/modulestest"
)

func TestABadURLIsAnException(t *testing.T) {
	v := newVU(t)
	for _, url := range []string{`"http://[::1"`, `"http://a b/"`, `"%zz"`, `"/relative"`, `""`, `"ftp://127.0.0.1/"`, `"http://"`, `"http://:80/"`, `undefined`, `null`, `42`, `{}`, `"http://127.0.0.1:x/"`, `"\u0000"`} {
		v.throws(fmt.Sprintf(`sse.open(%s, {}, () => {})`, url))
	}
	v.throws(`sse.open()`)
	expect(t, "nothing was sent", len(v.containers()), 0)
}

func TestAWrongParameterIsAnExceptionThatNamesIt(t *testing.T) {
	v := newVU(t)
	for params, text := range map[string]string{
		`{ firstEventTimout: 5 }`:                   `unknown field "firstEventTimout"`,
		`{ timeout: "30" + "x" }`:                   "params.timeout of type sse.milliseconds",
		`{ idleTimeout: -1 }`:                       "params.idleTimeout of type sse.milliseconds",
		`{ firstEventTimeout: {} }`:                 "params.firstEventTimeout of type sse.milliseconds",
		`{ body: { a: 1 } }`:                        "JSON.stringify",
		`{ terminal: { finished: "done" } }`:        `unknown field "finished"`,
		`{ terminal: { done: [1] } }`:               "terminal.done of type sse.eventNames",
		`{ tags: { a: {} } }`:                       "invalid value for metric tag 'a'",
		`{ jar: {} }`:                               "jar: expected a CookieJar",
		`{ headers: { "a b": "x" } }`:               `the header "a b"`,
		`{ method: "G ET" }`:                        "invalid method",
		`{ headers: { Authorization: "se\ncret" }}`: `the header "Authorization"`,
	} {
		message := v.throws(fmt.Sprintf(`sse.open("http://127.0.0.1:1/", %s)`, params))
		if !strings.Contains(message, text) {
			t.Errorf("%s: expected %q, got %q", params, text, message)
		}
		if strings.Contains(message, "cret") {
			t.Errorf("%s: the message shows a value: %q", params, message)
		}
	}
	v.throws(`sse.open("http://127.0.0.1:1/", {}, "no function")`)
	v.throws(`sse.open("http://127.0.0.1:1/", {}, (c) => c.on("evnt", () => {}))`)
	v.throws(`sse.open("http://127.0.0.1:1/", {}, (c) => c.on("event", 5))`)
	v.throws(`sse.open("http://127.0.0.1:1/", {}, () => {}, 1)`)
}

func TestAHandlerThatThrowsClosesTheStreamAndTheScriptSeesIt(t *testing.T) {
	for _, event := range []string{"open", "event"} {
		contexts := make(chan context.Context, 1)
		url := serve(t, func(w http.ResponseWriter, r *http.Request) {
			contexts <- r.Context()
			stream("data: a\n\ndata: b\n\n")(w, r)
			silence(r)
		})
		v := newVU(t)
		message := v.throws(fmt.Sprintf(`sse.open(%q, {}, (c) => c.on(%q, () => { throw new Error("of the script"); }))`, url, event))
		if !strings.Contains(message, "of the script") {
			t.Errorf("%s: expected the script's own exception, got %q", event, message)
		}
		goneWithin(t, <-contexts)
		expect(t, event+": counted", len(v.containers()), 1)
		// The VU goes on: the next stream is as any other.
		expect(t, event+": afterwards", v.silent(serve(t, stream("data: a\n\n")), `{}`).Ended, "eof")
	}
	v := newVU(t)
	v.throws(`sse.open("http://127.0.0.1:1/", {}, (c) => c.on("error", () => { throw new Error("x"); }))`)
	v.throws(`sse.open("http://127.0.0.1:1/", {}, () => { throw new Error("x"); })`)
	expect(t, "the script may catch it", v.result(`(() => {
		try { sse.open("http://127.0.0.1:1/", {}, (c) => c.on("error", () => { throw new Error("x"); })); } catch (e) { return { error: e.message }; }
	})()`).Error, "x")
}

func TestASetupFunctionIsNotNeeded(t *testing.T) {
	url := serve(t, stream("data: a\n\n"))
	v := newVU(t)
	expect(t, "url", v.result(fmt.Sprintf(`sse.open(%q)`, url)).Events, 1)
	expect(t, "url, setup", v.result(fmt.Sprintf(`sse.open(%q, (c) => {})`, url)).Events, 1)
	expect(t, "url, null", v.result(fmt.Sprintf(`sse.open(%q, null)`, url)).Events, 1)
}

func TestAStreamMayBeOpenedInAHandler(t *testing.T) {
	inner := serve(t, stream("data: a\n\n", "data: b\n\n"))
	outer := serve(t, stream("data: 1\n\n", "data: 2\n\n", "data: 3\n\n"))
	r := newVU(t).open(outer, `{}`, fmt.Sprintf(`seen.push(sse.open(%q).events)`, inner))
	expect(t, "seen", strings.Join(r.Seen, " "), "||1| 2 ||2| 2 ||3| 2")
}

func TestTheInitContextIsNoPlaceForStreams(t *testing.T) {
	runtime := modulestest.NewRuntime(t)
	if err := runtime.SetupModuleSystem(map[string]any{"k6/x/sse": NewRootModule()}, nil, nil); err != nil {
		t.Fatal(err)
	}
	_, err := runtime.VU.Runtime().RunString(`require("k6/x/sse").default.open("http://127.0.0.1:1/")`)
	if err == nil || !strings.Contains(err.Error(), "init context") {
		t.Errorf("expected an error that names the init context, got %v", err)
	}
}

func TestSamplesOfAStreamComeAtOnce(t *testing.T) {
	v := newVU(t)
	url := serve(t, stream("data: a\n\n", "data: b\n\n", "event: done\ndata: {}\n\n"))
	r := v.silent(url+"/chat/stream?secret=1", `{ terminal: { done: "done" }, tags: { org: "a" }, method: "POST" }`)
	containers := v.containers()
	if len(containers) != 1 {
		t.Fatalf("expected one container of samples, got %d", len(containers))
	}
	counts, sums := map[string]int{}, map[string]float64{}
	for _, sample := range containers[0].GetSamples() {
		counts[sample.Metric.Name]++
		sums[sample.Metric.Name] += sample.Value
		for tag, want := range map[string]string{"name": "/chat/stream", "status": "200", "method": "POST", "ended": "done", "org": "a", "scenario": "test"} {
			if got, _ := sample.Tags.Get(tag); got != want {
				t.Errorf("%s: tag %s: expected %q, got %q", sample.Metric.Name, tag, want, got)
			}
		}
		if url, has := sample.Tags.Get("url"); has {
			t.Errorf("%s: expected no url tag, got %q", sample.Metric.Name, url)
		}
	}
	for name, want := range map[string]int{"sse_time_to_first_event": 1, "sse_event_gap": 2, "sse_stream_duration": 1, "sse_streams": 1, "sse_event": 1} {
		expect(t, name, counts[name], want)
	}
	expect(t, "events counted", sums["sse_event"], 3)
	expect(t, "streams counted", sums["sse_streams"], 1)
	ms := float64(*r.DoneUs-*r.StartUs) / 1000
	if parts := sums["sse_time_to_first_event"] + sums["sse_event_gap"]; parts < ms-0.01 || parts > ms+0.01 || sums["sse_stream_duration"] < ms-0.01 {
		t.Errorf("first event and gaps are to add up to the duration: %v, %v, %v", parts, sums["sse_stream_duration"], ms)
	}
}

func TestSamplesOfARefusalAndOfNoAnswer(t *testing.T) {
	v := newVU(t)
	v.silent(serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", 429) }), `{ tags: { name: "chat" } }`)
	v.silent("http://127.0.0.1:1/", `{}`)
	for i, want := range []struct{ name, status, ended string }{{"chat", "429", "refused"}, {"/", "0", "reset"}} {
		samples := (<-v.samples).GetSamples()
		if len(samples) != 1 {
			t.Fatalf("%d: expected sse_streams alone, got %d samples", i, len(samples))
		}
		sample := samples[0]
		expect(t, "metric", sample.Metric.Name, "sse_streams")
		for tag, value := range map[string]string{"name": want.name, "status": want.status, "ended": want.ended} {
			got, _ := sample.Tags.Get(tag)
			expect(t, tag, got, value)
		}
	}
}

func TestAnyScriptHasOpenAlone(t *testing.T) {
	url := serve(t, stream("event: done\ndata: {}\n\n"))
	v := newVU(t)
	v.run(fmt.Sprintf(`
		if (Object.keys(forAll.default).join() !== "open" || typeof forAll.open !== "function") throw new Error(Object.keys(forAll.default).join());
		sse.budget({ requests: 1 });
		const ended = [1, 2].map(() => forAll.default.open(%q).ended).join();
		if (ended !== "eof,not_sent") throw new Error("both modules have one budget, but calls ended as " + ended);`, url))
}
