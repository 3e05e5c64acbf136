package account

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"go.k6.io/k6/v2/lib"
	"go.k6.io/k6/v2/lib/executor"
	"go.k6.io/k6/v2/metrics"
	"go.k6.io/k6/v2/output"
)

type rig struct {
	t        *testing.T
	out      *collector
	path     string
	logger   *logrus.Logger
	registry *metrics.Registry
	builtin  *metrics.BuiltinMetrics
}

func newRig(t *testing.T, tags *metrics.SystemTagSet) *rig {
	t.Helper()
	registry := metrics.NewRegistry()
	logger := logrus.New()
	logger.SetOutput(os.NewFile(0, os.DevNull))
	path := filepath.Join(t.TempDir(), "account.json")
	ramping := executor.NewRampingVUsConfig("ramp")
	ramping.GracefulRampDown.Duration = 0
	out, err := newOutput(output.Params{
		ConfigArgument: path, Logger: logger,
		ScriptOptions: lib.Options{
			SystemTags: tags,
			Scenarios:  lib.ScenarioConfigs{"steady": executor.NewConstantVUsConfig("steady"), "ramp": ramping},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return &rig{t, out.(*collector), path, logger, registry, metrics.RegisterBuiltinMetrics(registry)}
}

func (r *rig) push(metric *metrics.Metric, value float64, tags ...string) {
	set := r.registry.RootTagSet()
	for i := 0; i < len(tags); i += 2 {
		set = set.With(tags[i], tags[i+1])
	}
	series := metrics.TimeSeries{Metric: metric, Tags: set}
	r.out.AddMetricSamples([]metrics.SampleContainer{metrics.Sample{TimeSeries: series, Time: time.Now(), Value: value}})
}

func (r *rig) account() account {
	r.t.Helper()
	if err := r.out.Stop(); err != nil {
		r.t.Fatal(err)
	}
	text, err := os.ReadFile(r.path)
	if err != nil {
		r.t.Fatal(err)
	}
	var account account
	if err := json.Unmarshal(text, &account); err != nil {
		r.t.Fatal(err)
	}
	return account
}

func TestIterationsAreCountedByHowTheyEnded(t *testing.T) {
	r := newRig(t, &metrics.DefaultSystemTagSet)
	for range 3 {
		r.push(r.builtin.Iterations, 1, "scenario", "steady")
	}
	for range 5 {
		r.push(r.builtin.DataSent, 0, "scenario", "steady")
	}
	r.push(r.builtin.DataSent, 0, "group", "::setup")
	r.push(r.builtin.DroppedIterations, 7, "scenario", "steady")
	r.logger.WithFields(logrus.Fields{"scenario": "steady", "executor": "constant-vus"}).Error("Error: no")
	r.logger.WithField("source", "console").Error("the script's own words")
	account := r.account()
	ramp, steady := account.Scenarios[0], account.Scenarios[1]
	want := scenario{
		Name: "steady", Executor: "constant-vus", GracefulStop: true, Ended: 3, Threw: 1, Exception: "Error: no", Cut: 2, Dropped: 7,
	}
	if *steady != want {
		t.Errorf("steady: %+v, want %+v", *steady, want)
	}
	if ramp.Name != "ramp" || ramp.GracefulStop || ramp.Ended != 0 {
		t.Errorf("ramp: %+v", *ramp)
	}
	if len(account.Troubles) != 0 {
		t.Errorf("troubles: %v", account.Troubles)
	}
}

func TestIterationsWithoutTheirTagAreCountedTogether(t *testing.T) {
	r := newRig(t, metrics.NewSystemTagSet(metrics.TagStatus))
	r.push(r.builtin.Iterations, 1)
	r.push(r.builtin.DataSent, 0)
	r.push(r.builtin.DataSent, 0, "group", "::setup")
	r.logger.WithFields(logrus.Fields{"scenario": "ramp", "executor": "ramping-vus"}).Error("Error: no")
	account := r.account()
	if len(account.Scenarios) != 1 || account.Scenarios[0].Ended != 1 || account.Scenarios[0].Threw != 1 || account.Scenarios[0].Cut != 0 {
		t.Errorf("scenarios: %+v", account.Scenarios[0])
	}
}

func TestAThresholdIsGivenTheSamplesBehindIt(t *testing.T) {
	r := newRig(t, &metrics.DefaultSystemTagSet)
	r.out.SetThresholds(map[string]metrics.Thresholds{
		"http_req_duration":                 metrics.NewThresholds([]string{"p(95)<500"}),
		"http_req_duration{name:chat}":      metrics.NewThresholds([]string{"p(95)<500"}),
		"http_req_duration{name: never}":    metrics.NewThresholds([]string{"p(95)<500"}),
		"http_req_duration{noise:at_last}":  metrics.NewThresholds([]string{"p(95)<500"}),
		`http_req_duration{name:" spaced"}`: metrics.NewThresholds([]string{"p(95)<500"}),
		"mine":                              metrics.NewThresholds([]string{"count<5"}),
	})
	r.push(r.builtin.HTTPReqDuration, 5, "name", "chat")
	r.push(r.builtin.HTTPReqDuration, 5, "name", " spaced")
	type got struct {
		samples int64
		keys    bool
	}
	want := map[string]got{
		"http_req_duration": {2, false}, "http_req_duration{name:chat}": {1, true}, "http_req_duration{name: never}": {0, true},
		"http_req_duration{noise:at_last}": {0, false}, `http_req_duration{name:" spaced"}`: {1, true}, "mine": {0, false},
	}
	account := r.account()
	if len(account.Thresholds) != len(want) {
		t.Fatalf("%d thresholds", len(account.Thresholds))
	}
	for _, threshold := range account.Thresholds {
		if is := (got{threshold.Samples, threshold.Keys}); is != want[threshold.Metric] {
			t.Errorf("%s: %+v, want %+v", threshold.Metric, is, want[threshold.Metric])
		}
	}
}

func TestCallsAreCountedByStatus(t *testing.T) {
	r := newRig(t, &metrics.DefaultSystemTagSet)
	streams, _ := r.registry.NewMetric("sse_streams", metrics.Counter)
	events, _ := r.registry.NewMetric("sse_event", metrics.Counter)
	r.push(r.builtin.HTTPReqs, 1, "status", "200")
	r.push(r.builtin.HTTPReqFailed, 0, "status", "200")
	r.push(r.builtin.HTTPReqs, 1, "status", "0")
	r.push(r.builtin.HTTPReqFailed, 1, "status", "0")
	r.push(streams, 1, "status", "200", "ended", "done")
	r.push(streams, 1, "status", "200", "ended", "truncated")
	r.push(events, 12, "status", "200")
	r.push(r.builtin.Checks, 1)
	r.push(r.builtin.Checks, 0)
	account := r.account()
	if calls := account.Calls; calls.ByStatus["200"] != 3 || calls.ByStatus["0"] != 1 || calls.Failed != 2 || calls.Streams != 2 || calls.Events != 12 {
		t.Errorf("calls: %+v", calls)
	}
	if account.Checks != (checks{Made: 2, Failed: 1}) {
		t.Errorf("checks: %+v", account.Checks)
	}
}
