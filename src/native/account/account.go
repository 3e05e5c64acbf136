// Package account is the k6 output `floodgate-account=FILE`, which summarizes a run of a user's own script. k6 itself ends with code 0 when
// every iteration threw, iterations were dropped or cut off, a scenario never began, or a threshold had no sample.
package account

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"
	"go.k6.io/k6/v2/lib/executor"
	"go.k6.io/k6/v2/metrics"
	"go.k6.io/k6/v2/output"
)

const name = "floodgate-account"

func init() {
	output.RegisterExtension(name, newOutput)
}

// account is written to the file as JSON when the test is over: ScriptAccount of src/drivers/k6/user-script.ts.
type account struct {
	Scenarios  []*scenario  `json:"scenarios"`
	Calls      calls        `json:"calls"` // of all scenarios, setup and teardown
	Checks     checks       `json:"checks"`
	Thresholds []*threshold `json:"thresholds"`
	Troubles   []string     `json:"troubles"` // the first errors that k6 logged outside iterations, which its exit code does not show
}

type scenario struct {
	Name         string `json:"name"`
	Executor     string `json:"executor"`
	GracefulStop bool   `json:"graceful_stop"` // iterations get time to end, so an iteration that was cut off took longer
	Ended        int64  `json:"ended"`         // iterations that k6 counts as complete
	Threw        int64  `json:"threw"`         // of the ended, iterations that ended with an exception
	Exception    string `json:"exception,omitempty"`
	Cut          int64  `json:"cut"`
	Dropped      int64  `json:"dropped"`
	begun        int64  // includes setup and teardown if the script switched the scenario tag off
}

type calls struct {
	ByStatus map[string]int64 `json:"by_status"` // by HTTP status; "0" stands for no answer
	Failed   int64            `json:"failed"`    // by k6's own measure (http_req_failed), and streams that were refused or did not end properly
	Streams  int64            `json:"streams"`   // opened streams
	Events   int64            `json:"events"`
}

type checks struct {
	Made   int64 `json:"made"`
	Failed int64 `json:"failed"`
}

type threshold struct {
	Metric  string `json:"metric"`
	Source  string `json:"source"`
	Samples int64  `json:"samples"` // samples of the metric, with the threshold's tags if it names some
	Keys    bool   `json:"keys"`    // some sample of the metric has the threshold's tag keys, so only the values never came
	Failed  bool   `json:"failed"`
	own     *metrics.Threshold
	tags    map[string]string // that a sample needs to belong to it; empty if it is of the whole metric
}

const (
	troublesKept    = 5
	exceptionLength = 500
)

// collector implements k6's output interfaces.
type collector struct {
	path        string
	noThreshold bool

	mu         sync.Mutex // the log and the samples come from different goroutines
	account    account
	scenarios  map[string]*scenario    // "" stands for all if the script switched the tag `scenario` off
	thresholds map[string][]*threshold // by metric
}

var _ output.WithThresholds = &collector{}

func newOutput(params output.Params) (output.Output, error) {
	if params.ConfigArgument == "" {
		return nil, fmt.Errorf("%s needs the file to write: %s=FILE", name, name)
	}
	logger, ok := params.Logger.(*logrus.Logger)
	if !ok {
		return nil, errors.New("k6's log cannot be listened to, so exceptions of iterations would go unseen")
	}
	o := &collector{
		path:        params.ConfigArgument,
		noThreshold: params.RuntimeOptions.NoThresholds.Bool,
		account: account{
			Scenarios: []*scenario{}, Thresholds: []*threshold{}, Troubles: []string{}, Calls: calls{ByStatus: map[string]int64{}},
		},
		scenarios:  map[string]*scenario{},
		thresholds: map[string][]*threshold{},
	}
	tags := params.ScriptOptions.SystemTags
	isOff := tags != nil && !tags.Has(metrics.TagScenario)
	for name, config := range params.ScriptOptions.Scenarios {
		if isOff {
			o.scenarios[""] = &scenario{Name: "all", Executor: config.GetType()}
			continue
		}
		ramping, isRamping := config.(executor.RampingVUsConfig)
		cuts := config.GetGracefulStop() == 0 || isRamping && ramping.GracefulRampDown.TimeDuration() == 0
		o.scenarios[name] = &scenario{Name: name, Executor: config.GetType(), GracefulStop: !cuts}
	}
	for _, name := range slices.Sorted(maps.Keys(o.scenarios)) {
		o.account.Scenarios = append(o.account.Scenarios, o.scenarios[name])
	}
	logger.AddHook(o)
	return o, nil
}

func (o *collector) Description() string { return "floodgate's account of the script" }

func (o *collector) Start() error { return nil }

// SetThresholds gets the script's thresholds before the first sample. k6 has refused names that cannot be parsed.
func (o *collector) SetThresholds(all map[string]metrics.Thresholds) {
	if o.noThreshold {
		return
	}
	for name, thresholds := range all {
		metric, pairs, _ := metrics.ParseMetricName(name)
		tags := map[string]string{}
		for _, pair := range pairs {
			key, value, _ := strings.Cut(pair, ":")
			tags[unquoted(key)] = unquoted(value)
		}
		for _, own := range thresholds.Thresholds {
			one := &threshold{Metric: name, Source: own.Source, own: own, tags: tags}
			o.thresholds[metric] = append(o.thresholds[metric], one)
			o.account.Thresholds = append(o.account.Thresholds, one)
		}
	}
	slices.SortFunc(o.account.Thresholds, func(a, b *threshold) int {
		return strings.Compare(a.Metric+" "+a.Source, b.Metric+" "+b.Source)
	})
}

// unquoted trims a tag of a threshold as k6 does (AddSubmetric): spaces inside quotes belong to it.
func unquoted(text string) string { return strings.Trim(strings.TrimSpace(text), `"'`) }

func (o *collector) Levels() []logrus.Level {
	return []logrus.Level{logrus.PanicLevel, logrus.FatalLevel, logrus.ErrorLevel}
}

// Fire gets every error that k6 logs. k6 reports exceptions of iterations only there, by the logger of the scenario's executor.
func (o *collector) Fire(entry *logrus.Entry) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	name, _ := entry.Data["scenario"].(string)
	_, isOfExecutor := entry.Data["executor"]
	if of := cmp.Or(o.scenarios[name], o.scenarios[""]); isOfExecutor && name != "" && of != nil {
		of.Threw++
		of.Exception = cmp.Or(of.Exception, bounded(entry.Message))
		return nil
	}
	if source := entry.Data["source"]; source == "console" || len(o.account.Troubles) >= troublesKept {
		return nil
	}
	text := entry.Message
	for _, key := range []string{"metric_name", logrus.ErrorKey} {
		if more, has := entry.Data[key]; has {
			text = fmt.Sprintf("%s: %v", text, more)
		}
	}
	o.account.Troubles = append(o.account.Troubles, bounded(text))
	return nil
}

func bounded(text string) string {
	if runes := []rune(text); len(runes) > exceptionLength {
		return string(runes[:exceptionLength]) + "…"
	}
	return text
}

// AddMetricSamples counts what k6 measured; k6 calls it about twenty times a second.
func (o *collector) AddMetricSamples(containers []metrics.SampleContainer) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, container := range containers {
		for _, sample := range container.GetSamples() {
			o.see(sample)
		}
	}
}

// of returns the scenario with a name; for an unknown name, one that is discarded.
func (o *collector) of(name string) *scenario {
	return cmp.Or(o.scenarios[name], o.scenarios[""], &scenario{})
}

func (o *collector) see(sample metrics.Sample) {
	metric := sample.Metric
	for _, one := range o.thresholds[metric.Name] {
		one.see(sample.Tags)
	}
	tag := func(name string) string {
		value, _ := sample.Tags.Get(name)
		return value
	}
	switch metric.Name {
	case metrics.IterationsName:
		o.of(tag("scenario")).Ended += int64(sample.Value)
	case metrics.DroppedIterationsName:
		o.of(tag("scenario")).Dropped += int64(sample.Value)
	case metrics.DataSentName: // k6 takes one sample at the end of each iteration, however that ended
		o.of(tag("scenario")).begun++
	case metrics.ChecksName:
		o.account.Checks.Made++
		if sample.Value == 0 {
			o.account.Checks.Failed++
		}
	case metrics.HTTPReqFailedName:
		if sample.Value != 0 {
			o.account.Calls.Failed++
		}
	case metrics.HTTPReqsName, metrics.WSSessionsName, metrics.GRPCReqDurationName, "browser_http_req_duration":
		o.account.Calls.ByStatus[statusOf(metric.Name, tag("status"))]++
	case "sse_streams":
		status := tag("status")
		o.account.Calls.ByStatus[statusOf(metric.Name, status)]++
		if strings.HasPrefix(status, "2") {
			o.account.Calls.Streams++
		}
		if !slices.Contains([]string{"done", "eof", "error_event", "closed_by_client"}, tag("ended")) {
			o.account.Calls.Failed++
		}
	case "sse_event":
		o.account.Calls.Events += int64(sample.Value)
	}
}

// statusOf names the HTTP status of a call: "unknown" for gRPC, or if the script switched the tag off.
func statusOf(metric, tag string) string {
	if tag == "" || metric == metrics.GRPCReqDurationName {
		return "unknown"
	}
	return tag
}

// see counts a sample of the threshold's metric.
func (t *threshold) see(tags *metrics.TagSet) {
	hasKeys, hasValues := len(t.tags) > 0, true
	for key, wanted := range t.tags {
		value, has := tags.Get(key)
		hasKeys = hasKeys && has
		hasValues = hasValues && has && value == wanted
	}
	t.Keys = t.Keys || hasKeys
	if hasValues {
		t.Samples++
	}
}

// Stop writes the account, after the last evaluation of the thresholds.
func (o *collector) Stop() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for name, scenario := range o.scenarios {
		if name != "" {
			scenario.Cut = max(0, scenario.begun-scenario.Ended)
		}
	}
	for _, one := range o.account.Thresholds {
		one.Failed = one.own.LastFailed
	}
	text, err := json.Marshal(o.account)
	if err != nil {
		return err
	}
	return os.WriteFile(o.path, text, 0o600)
}
